/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock that a thread which forks holds over the fork, so that the child does not
 * find it taken by a thread that it has not got.
 */
#ifndef VERBENA_FORKLOCK_H
#define VERBENA_FORKLOCK_H

#include <pthread.h>

/* One a file. The library is never unloaded (-z nodelete), so neither are the handlers. */
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
