/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that make the first objects at once, and forks while others make and destroy them. */
#include "loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define FORKS 10

static struct ibv_context *shared;
static pthread_barrier_t together;
static _Atomic int stop;

/* The engine is loaded and the context opened once, by the thread that comes first. */
static void *first(void *arg)
{
	struct ibv_context *own;
	struct ibv_pd *a, *b;

	(void)arg;
	pthread_barrier_wait(&together);
	own = open_loopback();
	MUST(a = ibv_alloc_pd(shared));
	MUST(b = ibv_alloc_pd(own));
	EQUAL(ibv_dealloc_pd(a), 0);
	EQUAL(ibv_dealloc_pd(b), 0);
	EQUAL(ibv_close_device(own), 0);
	return NULL;
}

/* Makes and destroys everything until it is told to stop. */
static void *busy(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		struct ibv_context *own = open_loopback();
		struct end e;

		end_open(&e, own, NULL);
		end_qp(&e, IBV_QPT_RC);
		end_close(&e, 1);
		EQUAL(ibv_close_device(own), 0);
	}
	return NULL;
}

static void one_message(struct ibv_context *ctx)
{
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(post_recv(&b, 1, 0, 10), 0);
	EQUAL(post_send(&a, 2, 0, 10), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	unpair(&a, &b);
}

int main(void)
{
	pthread_t threads[THREADS];

	shared = open_loopback();
	MUST(pthread_barrier_init(&together, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, first, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_join(threads[i], NULL) == 0);

	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&threads[i], NULL, busy, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		int status;
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0) {
			one_message(shared);
			_exit(failures != 0);
		}
		EQUAL(waitpid(pid, &status, 0), pid);
		EQUAL(status, 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
	one_message(shared);
	return finish(shared);
}
