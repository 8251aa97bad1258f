/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exit of a program (leave.c) beside a thread in the engine's place. The argument says what the
 * thread does once the exit has begun. It prints "done" when it has finished.
 */
#include "../../engine/leave.c"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void works(useconds_t pause)
{
	usleep(pause);
	vb_exit_works();
}

static void *engine(void *how)
{
	vb_exit_leaves(VB_EXIT_ATTENDED);
	if (strcmp(how, "stuck") == 0)
		pause();
	while (strcmp(how, "endless") == 0)
		works(1000);
	/* Three times as long as the exit waits for a thread that does nothing. */
	for (int i = 0; i < 30 && strcmp(how, "works") == 0; i++)
		works(EXIT_PATIENCE_MS * 100);
	if (write(1, "done\n", 5) != 5)
		abort();
	vb_exit_becomes(VB_EXIT_DONE);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int status = 1;

	if (argc < 2)
		return 0; /* no thread of the engine was ever there */
	vb_exit_becomes(VB_EXIT_ATTENDED);
	if (strcmp(argv[1], "fork") == 0) {
		/* The child has no such thread. It must not wait for one. */
		if (fork() == 0) {
			alarm(20);
			exit(0);
		}
		wait(&status);
		_exit(status != 0);
	}
	if (pthread_create(&t, NULL, engine, argv[1]))
		return 1;
	return 0;
}
