/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock that is held for some nanoseconds: polling a completion queue. With fewer cores than
 * threads its holder may not be running, so a waiting thread yields the core.
 */
#ifndef VERBENA_LOCK_H
#define VERBENA_LOCK_H

#include <sched.h>
#include <stdatomic.h>

struct vb_lock {
	atomic_flag taken;
};

/* Several times the duration of a poll. */
#define VB_LOCK_SPINS 100

static inline void vb_lock_init(struct vb_lock *l)
{
	atomic_flag_clear(&l->taken);
}

static inline void vb_lock_take(struct vb_lock *l)
{
	unsigned n = 0;

	while (atomic_flag_test_and_set_explicit(&l->taken, memory_order_acquire))
		if (++n % VB_LOCK_SPINS == 0)
			sched_yield();
}

static inline void vb_lock_leave(struct vb_lock *l)
{
	atomic_flag_clear_explicit(&l->taken, memory_order_release);
}

#endif
