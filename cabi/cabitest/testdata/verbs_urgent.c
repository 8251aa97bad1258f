/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGURG is the application's: its handler stays, and the engine's runtime does not send the
 * signal. Otherwise it would end system calls of the application with EINTR. The handler runs on a
 * signal stack if there is one: a goroutine's own may be too small.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <pthread.h>
#include <signal.h>

/* The runtime would preempt each thread every 10 ms. */
#define RUN_MS 500

static struct ibv_context *ctx;
static int signals;

static void handler(int sig)
{
	(void)sig;
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	long long until = now_ms() + RUN_MS;
	struct end a, b;

	(void)arg;
	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; now_ms() < until && !failures; i++) {
		EQUAL(post_recv(&b, i, 0, 64), 0);
		EQUAL(post_send(&a, i, 0, 64), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
	}
	unpair(&a, &b);
	return NULL;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handler}, now;
	pthread_t thread;

	MUST(sigaction(SIGURG, &act, NULL) == 0);
	ctx = open_loopback();
	MUST(pthread_create(&thread, NULL, work, NULL) == 0);
	work(NULL);
	pthread_join(thread, NULL);
	MUST(sigaction(SIGURG, NULL, &now) == 0);
	CHECK(now.sa_handler == handler);
	CHECK(now.sa_flags & SA_ONSTACK);
	EQUAL(signals, 0);
	raise(SIGURG);
	EQUAL(signals, 1);
	return finish(ctx);
}
