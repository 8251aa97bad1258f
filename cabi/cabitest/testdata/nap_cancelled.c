/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that is cancelled while it naps between polls ends after the nap: else the engine would
 * take it for asleep for ever. This program has a sched_yield of its own, which takes a time slice,
 * and a ppoll in which the thread is cancelled.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "giveway.h"
#include "loop.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

int sched_yield(void)
{
	uint64_t end = now_ns() + VB_SLICE_NS;

	while (now_ns() <= end)
		;
	return 0;
}

static atomic_int naps, cancelled, ended;

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	(void)fds, (void)n, (void)timeout, (void)mask;
	atomic_store(&naps, 1);
	while (!atomic_load(&cancelled))
		;
	pthread_testcancel(); /* as that of the C library does */
	atomic_store(&ended, 1);
	return 0;
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

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	pthread_t thread;
	struct ibv_cq *cq;
	void *result;

	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, NULL, 0));
	MUST(pthread_create(&thread, NULL, poller, cq) == 0);
	while (!atomic_load(&naps))
		;
	MUST(pthread_cancel(thread) == 0);
	atomic_store(&cancelled, 1);
	MUST(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(ended);
	EQUAL(ibv_destroy_cq(cq), 0);
	return finish(ctx);
}
