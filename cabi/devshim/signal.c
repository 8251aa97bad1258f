/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signal handlers run on the alternate stack of a thread that has one.
 *
 * A thread in the engine runs on a stack of Go, which has no room for a handler. Go gives such
 * threads an alternate stack, and sets SA_ONSTACK for the handlers that it finds when it is loaded.
 * This shim sets it for later ones, such as that of SIGALRM in perftest, which comes when a polling
 * thread is mostly in the engine. Threads without an alternate stack are not affected.
 *
 * Man page: sigaltstack(2); package os/signal of Go, "Go programs that use cgo or SWIG".
 */
#include "next.h"

#include <signal.h>

static int is_function(sighandler_t handler)
{
	return handler != SIG_DFL && handler != SIG_IGN && handler != SIG_ERR;
}

NEXT(sigaction, int(int, const struct sigaction *, struct sigaction *))
EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction marked;

	if (!next_sigaction())
		return -1;
	if (act && is_function(act->sa_handler)) {
		marked = *act;
		marked.sa_flags |= SA_ONSTACK;
		act = &marked;
	}
	return next_sigaction()(sig, act, old);
}

/* signal(2) with the BSD semantics of glibc. */
EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}
