/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock that is held over a fork. So the child does not find it held by a thread that the fork did
 * not copy.
 */
#ifndef VERBENA_FORKLOCK_H
#define VERBENA_FORKLOCK_H

#include <pthread.h>

/* One per file. The library, and with it the handlers, is never unloaded (-z nodelete). */
#define VB_HELD_OVER_FORK(mutex)                                      \
	static void vb_before_fork(void)                              \
	{                                                             \
		pthread_mutex_lock(mutex);                            \
	}                                                             \
	static void vb_after_fork(void)                               \
	{                                                             \
		pthread_mutex_unlock(mutex);                          \
	}                                                             \
	__attribute__((constructor)) static void vb_register_fork(void) \
	{                                                             \
		pthread_atfork(vb_before_fork, vb_after_fork, vb_after_fork); \
	}                                                             \
	_Static_assert(1, "for the semicolon behind it")

#endif
