/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells ThreadSanitizer of an order of events that it cannot see. Our libraries are not
 * instrumented: its runtime sees their mutexes, but neither atomics, nor locks of the engine, nor
 * records that the engine writes into a pipe. Programs built without -fsanitize=thread have no such
 * runtime, and this does nothing.
 */
#ifndef VERBENA_ORDER_H
#define VERBENA_ORDER_H

extern void __tsan_release(void *) __attribute__((weak));
extern void __tsan_acquire(void *) __attribute__((weak));

/* Everything that this thread did so far happens before a vb_order_after of the same address. */
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
