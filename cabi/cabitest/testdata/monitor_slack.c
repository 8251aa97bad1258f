/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer slack of the engine's threads: long for the monitor of the Go runtime, which is the
 * thread found in nanosleep(2) again and again, and as usual for the others. It exits with 77 if
 * the system does not let it read another thread's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

#define SEEN     5 /* times in nanosleep */
#define SLACK_NS 2000000
#define THREADS  64

static atomic_bool found;

/* Polls a queue, with a call into Go each time. */
static void *spin(void *cq)
{
	struct ibv_wc wc;

	while (!found)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
	return NULL;
}

/* Returns the number in a file of /proc, or -1. */
static long number_in(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static int sleeps_now(long tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", tid);
	return number_in(path) == SYS_nanosleep;
}

/* Lists the threads of the process. */
static int threads(long *tids)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	MUST(d);
	while ((e = readdir(d)) && n < THREADS)
		if (e->d_name[0] != '.')
			tids[n++] = atol(e->d_name);
	closedir(d);
	return n;
}

static long find_monitor(void)
{
	long long end = now_ms() + 3 * PATIENCE_MS;
	long tids[THREADS];
	int seen[THREADS] = {0}, n = threads(tids);

	while (now_ms() < end)
		for (int i = 0; i < n; i++)
			if (sleeps_now(tids[i]) && ++seen[i] == SEEN)
				return tids[i];
	return 0;
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	int usual = prctl(PR_GET_TIMERSLACK), n;
	long tids[THREADS], monitor;
	struct end e;
	pthread_t t;

	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_UD);
	EQUAL(pthread_create(&t, NULL, spin, e.cq), 0);
	monitor = find_monitor();
	MUST(monitor);
	n = threads(tids);
	for (int i = 0; i < n; i++) {
		char path[64];
		long slack;

		snprintf(path, sizeof(path), "/proc/%ld/timerslack_ns", tids[i]);
		slack = number_in(path);
		if (slack < 0)
			return 77;
		EQUAL(slack, tids[i] == monitor ? SLACK_NS : usual);
	}
	found = 1;
	EQUAL(pthread_join(t, NULL), 0);
	end_close(&e, 1);
	return finish(ctx);
}
