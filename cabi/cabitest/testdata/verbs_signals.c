/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers that were installed after the engine was loaded, and without an
 * alternate stack: they run on threads of the application's, however busy these
 * are in the engine, and have room.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define HANDLER_BYTES 16384
#define SIGNALS 3000

static struct ibv_context *ctx;
static _Thread_local int mine;
static int signals, strangers;

static void handler(int sig)
{
	char frame[HANDLER_BYTES];

	memset(frame, sig, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	if (!mine)
		__atomic_add_fetch(&strangers, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
}

static sigset_t alarms;

/* Begins with alarms blocked: before its first call of the engine is over a thread has no room. */
static void *work(void *arg)
{
	struct end a, b;

	(void)arg;
	mine = 1;
	pair(&a, &b, ctx, IBV_QPT_RC);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	for (int i = 0; __atomic_load_n(&signals, __ATOMIC_RELAXED) < SIGNALS && !failures; i++) {
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
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	struct ibv_pd *pd;
	pthread_t thread;

	ctx = open_loopback();
	MUST(pd = ibv_alloc_pd(ctx)); /* the engine is there */
	MUST(sigaction(SIGALRM, &act, NULL) == 0);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	/* The kernel prefers the first thread. While that blocks them: the worker, and none of the engine's. */
	MUST(pthread_create(&thread, NULL, work, NULL) == 0);
	pthread_join(thread, NULL);
	signals = 0;
	MUST(pthread_create(&thread, NULL, work, NULL) == 0);
	work(NULL);
	pthread_join(thread, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	EQUAL(strangers, 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	return finish(ctx);
}
