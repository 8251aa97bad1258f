/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of the process. Most programs end without closing: what was put off for
 * their next call is still to be sent, peers are to learn that their connections
 * are over, and what was captured last is to be written.
 *
 * A thread of the engine's own does it, which waits here. The one that exits may
 * be in a signal handler that has interrupted the engine, where nothing of it may
 * be called, and so waits no longer than EXIT_PATIENCE_S: it may stand on a lock.
 */
#define _GNU_SOURCE
#include "leave.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXIT_PATIENCE_S 1

static _Atomic uint32_t state; /* an enum vb_exit, and a futex */

/* The process whose engine this is: a child has none of its threads. */
static pid_t owner;

__attribute__((constructor)) static void loaded(void)
{
	owner = getpid();
}

static long futex(int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, &state, op | FUTEX_PRIVATE_FLAG, value, timeout);
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
	struct timespec patience = { .tv_sec = EXIT_PATIENCE_S };

	if (owner != getpid() || atomic_load(&state) != VB_EXIT_ATTENDED)
		return;
	vb_exit_becomes(VB_EXIT_BEGUN);
	while (atomic_load(&state) == VB_EXIT_BEGUN)
		if (futex(FUTEX_WAIT, VB_EXIT_BEGUN, &patience) && errno == ETIMEDOUT)
			return;
}
