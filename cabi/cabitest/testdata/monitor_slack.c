/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer slack of the engine's threads: long for the monitor of the Go runtime, which is the
 * thread found in nanosleep(2) again and again, and as usual for the others. It exits with 77 and
 * says why if the system does not let it look.
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
#define SLACK_NS 50000000
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

/* Reads the number that a file of /proc begins with: 0 or an errno, EINVAL without a number. */
static int read_number(const char *path, long *n)
{
	FILE *f = fopen(path, "r");
	int err = 0;

	if (!f)
		return errno;
	errno = 0;
	if (fscanf(f, "%ld", n) != 1)
		err = errno ? errno : EINVAL;
	fclose(f);
	return err;
}

static void skip(const char *path, int err, const char *needs)
{
	fprintf(stderr, "%s: %s; the test needs %s\n", path, strerror(err), needs);
	exit(77);
}

/* Skips the test if the system lacks a file that the test reads of each thread. */
static void need(const char *path)
{
	long n;
	int err = read_number(path, &n);

	if (err && err != EINVAL) /* the thread itself is "running" */
		skip(path, err, "it");
}

static int has_vanished(int err)
{
	return err == ENOENT || err == ESRCH;
}

static int sleeps_now(long tid)
{
	char path[64];
	long n;
	int err;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", tid);
	err = read_number(path, &n);
	if (err && err != EINVAL && !has_vanished(err))
		skip(path, err, "to read it");
	return !err && n == SYS_nanosleep;
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
	int usual = prctl(PR_GET_TIMERSLACK), n, judged = 0;
	struct ibv_context *ctx;
	long tids[THREADS], monitor;
	struct end e;
	pthread_t t;

	need("/proc/thread-self/syscall");
	need("/proc/self/timerslack_ns");
	ctx = open_loopback();
	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_UD);
	EQUAL(pthread_create(&t, NULL, spin, e.cq), 0);
	monitor = find_monitor();
	MUST(monitor);
	n = threads(tids);
	for (int i = 0; i < n; i++) {
		char path[64];
		long slack;
		int err;

		snprintf(path, sizeof(path), "/proc/%ld/timerslack_ns", tids[i]);
		err = read_number(path, &slack);
		if (has_vanished(err))
			continue;
		if (err)
			skip(path, err, "CAP_SYS_NICE");
		EQUAL(slack, tids[i] == monitor ? SLACK_NS : usual);
		judged += tids[i] == monitor;
	}
	EQUAL(judged, 1);
	found = 1;
	EQUAL(pthread_join(t, NULL), 0);
	end_close(&e, 1);
	return finish(ctx);
}
