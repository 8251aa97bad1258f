/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread sleeps between polls, by a ppoll of this program. Its sched_yield takes a time slice,
 * which sleeps follow. Time goes on only there, in a nanosleep and in a ppoll.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "giveway.h"
#include "loop.h"

static _Atomic uint64_t now = 1; /* of the clock that the library sees */
static unsigned yields, sleeps;
static atomic_uint naps;
static atomic_int cancelled, ended;
static int closed; /* the engine's descriptors */

int sched_yield(void)
{
	yields++;
	atomic_fetch_add(&now, VB_SLICE_NS);
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = atomic_load(&now);

	(void)clock;
	t->tv_sec = ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)time, (void)rest;
	sleeps++;
	atomic_fetch_add(&now, 60000);
	return 0;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	(void)timeout, (void)mask;
	atomic_fetch_add(&naps, 1);
	atomic_fetch_add(&now, 1000);
	if (closed) {
		for (nfds_t i = 0; i < n; i++)
			fds[i].revents = POLLNVAL;
		return (int)n;
	}
	while (!atomic_load(&cancelled))
		;
	pthread_testcancel(); /* as that of the C library does */
	atomic_store(&ended, 1);
	return 0;
}

/* Closed descriptors end a ppoll at once. The thread sleeps by a nanosleep then. */
static void without_descriptors(struct ibv_context *ctx)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, NULL, 0));
	closed = 1;
	while (yields < 2 && !failures)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
	closed = 0;
	CHECK(naps > VB_SLEEPS_NS / 61000 - 2 && naps < VB_SLEEPS_NS / 61000 + 2);
	EQUAL(sleeps, naps);
	EQUAL(ibv_destroy_cq(cq), 0);
}

static void *poller(void *cq)
{
	struct ibv_wc wc;

	while (!failures) {
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
		if (atomic_load(&cancelled))
			pthread_testcancel();
	}
	return NULL;
}

/* A thread that is cancelled in a nap ends after it: else the engine would take it for asleep. */
static void while_cancelled(struct ibv_context *ctx)
{
	pthread_t thread;
	struct ibv_cq *cq;
	void *result;

	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, NULL, 0));
	atomic_store(&naps, 0);
	MUST(pthread_create(&thread, NULL, poller, cq) == 0);
	while (!atomic_load(&naps))
		;
	MUST(pthread_cancel(thread) == 0);
	atomic_store(&cancelled, 1);
	MUST(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(ended);
	EQUAL(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	without_descriptors(ctx);
	while_cancelled(ctx);
	return finish(ctx);
}
