/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGUSR1 in a program with a ring of packets: its own handler, mask or ignoring stays, and the
 * child of a fork has the default action. The first argument is how the program has the signal.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <signal.h>
#include <sys/wait.h>

static int signals;

static void handler(int sig)
{
	(void)sig;
	signals++;
}

static void in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		raise(SIGUSR1);
		_exit(0);
	}
	EQUAL(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

/* Waits for the file that the signal has the engine write. */
static void await(const char *file)
{
	long long until = now_ms() + 20000;

	while (access(file, F_OK) && now_ms() < until)
		usleep(1000);
	CHECK(access(file, F_OK) == 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct ibv_context *ctx;
	struct end a, b;
	sigset_t usr1;
	int sig = 0;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (!strcmp(how, "handler"))
		signal(SIGUSR1, handler);
	if (!strcmp(how, "ignored"))
		signal(SIGUSR1, SIG_IGN);
	if (!strcmp(how, "blocked"))
		sigprocmask(SIG_BLOCK, &usr1, NULL);
	ctx = open_loopback();
	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(post_recv(&b, 1, 0, 64), 0);
	EQUAL(post_send(&a, 1, 0, 64), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	if (!strcmp(how, "later"))
		signal(SIGUSR1, handler);
	if (!strcmp(how, "forked"))
		in_child();
	else
		kill(getpid(), SIGUSR1);
	if (!strcmp(how, "handler") || !strcmp(how, "later"))
		EQUAL(signals, 1);
	if (!strcmp(how, "blocked")) {
		EQUAL(sigwait(&usr1, &sig), 0);
		EQUAL(sig, SIGUSR1);
	}
	if (argc > 2)
		await(argv[2]);
	unpair(&a, &b);
	return finish(ctx);
}
