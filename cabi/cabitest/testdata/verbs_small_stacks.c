/* SPDX-License-Identifier: BSD-2-Clause */
/* The library is called from small stacks: a thread's, which is the first to need the engine, and a coroutine's. */
#define _GNU_SOURCE
#include "loop.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <ucontext.h>

#define STACK 16384
#define ROUNDS 100

static struct ibv_context *ctx;
static struct end a, b;

static void work(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;
		struct end c = a;
		struct ibv_mr *mr;

		EQUAL(post_recv(&b, i, 0, 64), 0);
		EQUAL(post_send(&a, i, 0, 64), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
		MUST(mr = ibv_reg_mr(a.pd, a.buf, BYTES, ALL_ACCESS));
		EQUAL(ibv_dereg_mr(mr), 0);
		end_qp(&c, IBV_QPT_RC);
		EQUAL(ibv_query_qp(c.qp, &attr, 0, &init), 0);
		EQUAL(ibv_destroy_qp(c.qp), 0);
	}
}

static void *in_thread(void *arg)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	(void)arg;
	ctx = open_loopback();
	pair(&a, &b, ctx, IBV_QPT_RC);
	work();
	MUST(channel = rdma_create_event_channel());
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	EQUAL(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	return NULL;
}

static ucontext_t here, there;

static void in_coroutine(void)
{
	work();
	swapcontext(&there, &here);
}

int main(void)
{
	static char stack[STACK];
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	MUST(pthread_attr_setstacksize(&attr, STACK) == 0);
	MUST(pthread_create(&thread, &attr, in_thread, NULL) == 0);
	pthread_join(thread, NULL);

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	makecontext(&there, in_coroutine, 0);
	swapcontext(&here, &there);

	unpair(&a, &b);
	return finish(ctx);
}
