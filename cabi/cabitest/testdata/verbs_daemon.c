/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A daemon that begins as daemons do: its child closes all descriptors and goes
 * on alone, with verbs that it opens anew or opened before. The parent's are
 * whole.
 */
#include "loop.h"

#include <sys/wait.h>
#include <unistd.h>

static void exchange(struct end *a, struct end *b)
{
	EQUAL(post_recv(b, 1, 0, 100), 0);
	EQUAL(post_send(a, 2, 0, 100), 0);
	WANT_WC(b->cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
}

static void whole_life(struct ibv_context *ctx)
{
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < 100; i++)
		exchange(&a, &b);
	unpair(&a, &b);
}

/* A child, and its child, that close inherited descriptors. */
static int daemonized(int generations)
{
	struct ibv_context *ctx;
	int status = 0;

	setsid();
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	ctx = open_loopback();
	whole_life(ctx);
	if (generations > 1) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0)
			_exit(daemonized(generations - 1));
		MUST(waitpid(pid, &status, 0) == pid);
		EQUAL(status, 0);
		whole_life(ctx);
	}
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct end a, b;
	int status;
	pid_t pid;

	pair(&a, &b, ctx, IBV_QPT_RC);
	exchange(&a, &b);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		alarm(120);
		_exit(daemonized(2));
	}
	for (int i = 0; i < 100; i++)
		exchange(&a, &b);
	MUST(waitpid(pid, &status, 0) == pid);
	EQUAL(status, 0);
	exchange(&a, &b);
	unpair(&a, &b);
	return finish(ctx);
}
