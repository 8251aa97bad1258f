/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that blocks in ibv_get_cq_event goes on waiting for arrivals itself, also if the call
 * after each wait finds a second event. The engine's threads are not asked to read for it.
 */
#include "channel.h"
#include "loop.h"

#include <pthread.h>
#include <semaphore.h>

#define ROUNDS 20

static const struct vb_engine *engine;
static struct end a, b, c, d;
static sem_t waits;
static atomic_int sends, asks;

/* The engine's channel_take, which counts the calls that ask its threads to read. */
static int take(vb_handle handle, enum vb_take how, vb_cookie *cookie, int *kept)
{
	int err = engine->channel_take(handle, how, cookie, kept);

	atomic_fetch_add(&asks, how == VB_TAKE_SERVE);
	if (err == EAGAIN && how & VB_TAKE_WAIT && atomic_exchange(&sends, 0))
		EQUAL(sem_post(&waits), 0);
	return err;
}

/* Sends both messages of a round while the other thread waits. */
static void *send_both(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		while (sem_wait(&waits))
			MUST(errno == EINTR);
		EQUAL(post_send(&a, 2, 0, 1), 0);
		EQUAL(post_send(&c, 2, 0, 1), 0);
	}
	return NULL;
}

static void take_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	MUST(ibv_get_cq_event(channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_comp_channel *channel;
	struct vb_engine counting;
	struct vb_channel *own;
	struct ibv_cq *one, *two;
	pthread_t t;

	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(one = ibv_create_cq(ctx, DEPTH, NULL, channel, 0));
	MUST(two = ibv_create_cq(ctx, DEPTH, NULL, channel, 0));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, one);
	end_open(&c, ctx, NULL);
	end_open(&d, ctx, two);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	end_qp(&c, IBV_QPT_RC);
	end_qp(&d, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	connect_qps(c.qp, d.qp);
	own = vb_channel_of(channel);
	engine = atomic_load(&own->engine);
	counting = *engine;
	counting.channel_take = take;
	atomic_store(&own->engine, &counting);
	MUST(sem_init(&waits, 0, 0) == 0);
	MUST(pthread_create(&t, NULL, send_both, NULL) == 0);
	for (int i = 0; i < ROUNDS && !failures; i++) {
		EQUAL(post_recv(&b, 1, 0, 100), 0);
		EQUAL(post_recv(&d, 1, 0, 100), 0);
		EQUAL(ibv_req_notify_cq(one, 0), 0);
		EQUAL(ibv_req_notify_cq(two, 0), 0);
		atomic_store(&sends, 1);
		take_event(channel);
		WANT_WC(one, 1, IBV_WC_SUCCESS);
		WANT_WC(two, 1, IBV_WC_SUCCESS);
		take_event(channel);
		WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
		WANT_WC(c.cq, 2, IBV_WC_SUCCESS);
	}
	MUST(pthread_join(t, NULL) == 0);
	EQUAL(asks, 1); /* before it was known that the thread waits */
	atomic_store(&own->engine, engine);
	end_close(&a, 1);
	end_close(&b, 1);
	end_close(&c, 1);
	end_close(&d, 1);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
