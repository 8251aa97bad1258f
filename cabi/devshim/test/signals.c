/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers that a program installs run on the alternate stack, and the program reads them back as
 * it set them.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char stack[1 << 16];
static volatile sig_atomic_t on_stack, count;

static void handler(int sig)
{
	char here;

	(void)sig;
	on_stack = &here >= stack && &here < stack + sizeof stack;
	count++;
}

int main(int argc, char **argv)
{
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction act = { .sa_handler = handler }, old;

	assert(argc == 2);
	if (!getenv("LD_PRELOAD")) {
		setenv("LD_PRELOAD", argv[1], 1);
		execv("/proc/self/exe", argv);
		return 127;
	}
	assert(sigaltstack(&alternate, NULL) == 0);
	assert(signal(SIGUSR1, handler) == SIG_DFL);
	assert(raise(SIGUSR1) == 0 && count == 1 && on_stack);
	assert(signal(SIGUSR1, SIG_IGN) == handler);
	assert(raise(SIGUSR1) == 0 && count == 1);
	assert(sigaction(SIGUSR2, &act, NULL) == 0 && act.sa_flags == 0);
	assert(raise(SIGUSR2) == 0 && count == 2 && on_stack);
	assert(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == handler &&
	       !(old.sa_flags & SA_RESTART));
	assert(signal(SIGKILL, handler) == SIG_ERR && errno == EINVAL);
	printf("preload: signals ok\n");
	return 0;
}
