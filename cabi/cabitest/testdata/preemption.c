/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports whether SIGURG still has the action that it had before the first verbs
 * object. The engine's runtime preempts by it, except under valgrind.
 */
#include "loop.h"

#include <signal.h>

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct sigaction now;
	struct ibv_pd *pd;

	MUST(pd = ibv_alloc_pd(ctx));
	MUST(sigaction(SIGURG, NULL, &now) == 0);
	puts(now.sa_handler == SIG_DFL ? "no preemption" : "preemption");
	EQUAL(ibv_dealloc_pd(pd), 0);
	return finish(ctx);
}
