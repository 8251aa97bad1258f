/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exit of a program (leave.c) beside a thread in the engine's place. The argument says what the
 * thread does once the exit has begun. It prints "done" when it has finished.
 *
 * With "works" and "endless" time is simulated: each wait of the exit ends at once as if its
 * patience had passed, prints a dot, and the engine has worked meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

static long simulated(long n, void *word, int op, unsigned value, const void *timeout);
#define syscall(n, word, op, value, timeout) simulated(n, word, op, value, timeout)
#include "../../engine/leave.c"
#undef syscall

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char *how = "";

static void print(const char *s)
{
	if (write(1, s, strlen(s)) < 0)
		abort();
}

static void done(void)
{
	print("done\n");
	vb_exit_becomes(VB_EXIT_DONE);
}

static long simulated(long n, void *word, int op, unsigned value, const void *timeout)
{
	static int waits;

	if (!timeout || (strcmp(how, "works") && strcmp(how, "endless")))
		return syscall(n, word, op, value, timeout);
	if (waits++ == 3 && strcmp(how, "works") == 0) {
		done();
		return 0;
	}
	print(".");
	vb_exit_works();
	errno = ETIMEDOUT;
	return -1;
}

static void *engine(void *arg)
{
	(void)arg;
	vb_exit_leaves(VB_EXIT_ATTENDED);
	while (strcmp(how, "done"))
		pause();
	done();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int status = 1;

	if (argc < 2)
		return 0; /* no thread of the engine was ever there */
	vb_exit_becomes(VB_EXIT_ATTENDED);
	how = argv[1];
	if (strcmp(how, "fork") == 0) {
		/* The child has no such thread. It must not wait for one: its patience is longer. */
		if (fork() == 0) {
			alarm(EXIT_PATIENCE_MS / 2000);
			exit(0);
		}
		wait(&status);
		_exit(status != 0);
	}
	if (pthread_create(&t, NULL, engine, NULL))
		return 1;
	return 0;
}
