/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exit of the process. Most programs end without closing their objects. The engine then still
 * sends delayed acknowledgements, ends connections, and writes the rest of the capture.
 *
 * A thread of the engine waits here and does that. The exiting thread may be in a signal handler
 * that interrupted the engine, where it must not call the engine. So it only waits, at most
 * EXIT_PATIENCE_MS, because it may hold a lock of the engine. While a large file is being written
 * it waits again, EXIT_ROUNDS times at most.
 */
#define _GNU_SOURCE
#include "leave.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef EXIT_PATIENCE_MS
#define EXIT_PATIENCE_MS 1000
#endif
#define EXIT_ROUNDS 10

static _Atomic uint32_t state; /* an enum vb_exit, and a futex */

static _Atomic uint32_t work; /* the calls of vb_exit_works */

/* The process of the engine: a fork does not copy its threads. */
static pid_t owner;

__attribute__((constructor)) static void loaded(void)
{
	owner = getpid();
}

static long futex(int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, &state, op | FUTEX_PRIVATE_FLAG, value, timeout);
}

void vb_exit_works(void)
{
	atomic_fetch_add(&work, 1);
}

void vb_exit_becomes(uint32_t s)
{
	atomic_store(&state, s);
	futex(FUTEX_WAKE, 1, NULL);
}

void vb_exit_leaves(uint32_t s)
{
	while (atomic_load(&state) == s)
		futex(FUTEX_WAIT, s, NULL);
}

__attribute__((destructor)) static void leave(void)
{
	struct timespec patience = { EXIT_PATIENCE_MS / 1000, EXIT_PATIENCE_MS % 1000 * 1000000 };
	uint32_t seen = atomic_load(&work), now;
	int rounds = 0;

	if (owner != getpid() || atomic_load(&state) != VB_EXIT_ATTENDED)
		return;
	vb_exit_becomes(VB_EXIT_BEGUN);
	while (atomic_load(&state) == VB_EXIT_BEGUN)
		if (futex(FUTEX_WAIT, VB_EXIT_BEGUN, &patience) && errno == ETIMEDOUT) {
			now = atomic_load(&work);
			if (now == seen || ++rounds == EXIT_ROUNDS)
				return;
			seen = now;
		}
}
