/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits that a signal interrupts, restarted as the kernel restarts read(2). */
#ifndef VERBENA_RESTART_H
#define VERBENA_RESTART_H

#include <signal.h>

/*
 * Returns whether to repeat a call that a signal handler has interrupted. The kernel restarts
 * read(2), in which rdma-core waits, after a handler with SA_RESTART. It never restarts
 * epoll_wait(2) and poll(2), nor says which handler ran. So the call is repeated if all handlers
 * have the flag.
 */
static inline int vb_restarts(void)
{
	struct sigaction sa;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN && !(sa.sa_flags & SA_RESTART))
			return 0;
	return 1;
}

#endif
