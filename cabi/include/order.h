/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells ThreadSanitizer of an order that it cannot see. Our libraries are not
 * instrumented: the runtime knows their mutexes, and not their atomics, the
 * engine's locks and what the engine writes into a pipe by itself. In a program
 * that was not built with -fsanitize=thread there is no runtime, and this does
 * nothing.
 */
#ifndef VERBENA_ORDER_H
#define VERBENA_ORDER_H

extern void __tsan_release(void *) __attribute__((weak));
extern void __tsan_acquire(void *) __attribute__((weak));

/* What this thread did so far comes before what follows a vb_order_after of the same address. */
static inline void vb_order_before(void *at)
{
	if (__builtin_expect(__tsan_release != 0, 0))
		__tsan_release(at);
}

static inline void vb_order_after(void *at)
{
	if (__builtin_expect(__tsan_acquire != 0, 0))
		__tsan_acquire(at);
}

#endif
