/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion for which a notification was asked makes one event, also if the program polls it
 * before it looks for the event: ibv_req_notify_cq(3).
 */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>

static struct ibv_comp_channel *channel;

static void one_message(struct end *a, struct end *b)
{
	EQUAL(post_recv(b, 1, 0, 100), 0);
	EQUAL(post_send(a, 2, 0, 1), 0);
}

/* Polls until completions come, as many as are wanted. */
static void poll_until(struct ibv_cq *cq, int want, int each)
{
	long long end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc[DEPTH];

	while (want > 0) {
		int n = ibv_poll_cq(cq, each < want ? each : want, wc);

		MUST(n >= 0 && now_ms() < end);
		want -= n;
	}
}

static struct ibv_cq *get(void)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context))
		return NULL;
	ibv_ack_cq_events(cq, 1);
	return cq;
}

/* The descriptor becomes readable, and there is one event of the queue, or of both. */
static void want_events(struct ibv_cq *cq, struct ibv_cq *other)
{
	struct ibv_cq *first = NULL, *second = NULL;

	while (!first && readable(channel->fd, PATIENCE_MS))
		first = get();
	CHECK(first == cq || (first && first == other));
	if (other) {
		while (!second && readable(channel->fd, PATIENCE_MS))
			second = get();
		CHECK(second && second != first && (second == cq || second == other));
	}
	CHECK(!get() && errno == EAGAIN);
}

/* The thread that armed the queue polls the completions; another waits for the descriptor. */
static void *wait_readable(void *unused)
{
	(void)unused;
	CHECK(readable(channel->fd, PATIENCE_MS));
	return NULL;
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq_init_attr_ex attr = {.cqe = 2 * DEPTH};
	struct end a, b, c, d;
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	pthread_t t;

	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	MUST(cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, channel, 0));
	attr.channel = channel;
	MUST(ex = ibv_create_cq_ex(ctx, &attr));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, cq);
	end_open(&c, ctx, NULL);
	end_open(&d, ctx, ibv_cq_ex_to_cq(ex));
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	end_qp(&c, IBV_QPT_RC);
	end_qp(&d, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	connect_qps(c.qp, d.qp);

	for (int round = 0; round < 20 && !failures; round++) {
		/* It is polled, and the event comes all the same. */
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		one_message(&a, &b);
		poll_until(cq, 1, 1);
		want_events(cq, NULL);

		/* The queue is armed again before: for the next completion, which makes an event too. */
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		one_message(&a, &b);
		poll_until(cq, 1, 4);
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		want_events(cq, NULL);
		one_message(&a, &b);
		want_events(cq, NULL);
		poll_until(cq, 1, 4);

		/* Another thread waits. */
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		MUST(pthread_create(&t, NULL, wait_readable, NULL) == 0);
		one_message(&a, &b);
		poll_until(cq, 1, 4);
		MUST(pthread_join(t, NULL) == 0);
		want_events(cq, NULL);

		/* More completions than are polled at once. */
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		for (int i = 0; i < 5; i++)
			one_message(&a, &b);
		poll_until(cq, 2, 2);
		want_events(cq, NULL);
		poll_until(cq, 3, 1);

		/* Two queues; the other one is polled by ibv_start_poll. */
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		EQUAL(ibv_req_notify_cq(d.cq, 0), 0);
		one_message(&a, &b);
		one_message(&c, &d);
		poll_until(cq, 1, 1);
		while (ibv_start_poll(ex, &poll_attr))
			;
		EQUAL(ibv_next_poll(ex), ENOENT);
		ibv_end_poll(ex);
		want_events(cq, d.cq);

		/* A solicited one. */
		EQUAL(ibv_req_notify_cq(cq, 1), 0);
		one_message(&a, &b);
		poll_until(cq, 1, 1);
		CHECK(!get() && errno == EAGAIN);

		for (int i = 0; i < 10; i++)
			WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
		WANT_WC(c.cq, 2, IBV_WC_SUCCESS);
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		one_message(&a, &b); /* the queue is not armed any more */
		want_events(cq, NULL);
		poll_until(cq, 1, 1);
		WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	}

	/* An event that is left when its queue and its channel go. */
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	one_message(&a, &b);
	poll_until(cq, 1, 1);
	end_close(&a, 1);
	end_close(&b, 1);
	end_close(&c, 1);
	end_close(&d, 1);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
