/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits that a signal interrupts, restarted as the kernel restarts read(2). */
#ifndef VERBENA_RESTART_H
#define VERBENA_RESTART_H

#include <signal.h>

/*
 * Returns whether to repeat a call that a signal handler has interrupted. The kernel restarts
 * read(2), in which rdma-core waits, after a handler with SA_RESTART. It never restarts
 * epoll_wait(2) and poll(2), nor says which handler ran. So the call is repeated if all handlers
 * have the flag. SIGURG does not count, as vb_wait_mask blocks it.
 */
static inline int vb_restarts(void)
{
	struct sigaction sa;

	for (int sig = 1; sig < NSIG; sig++)
		if (sig != SIGURG && sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN && !(sa.sa_flags & SA_RESTART))
			return 0;
	return 1;
}

/*
 * Stores the mask of signals for a wait: the thread's, and SIGURG. The Go runtime sends that to
 * its threads, with SA_RESTART; another thread takes the application's.
 */
static inline const sigset_t *vb_wait_mask(sigset_t *mask)
{
	pthread_sigmask(SIG_SETMASK, NULL, mask);
	sigaddset(mask, SIGURG);
	return mask;
}

#endif
