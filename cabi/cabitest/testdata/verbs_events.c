/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion events: ibv_create_comp_channel(3), ibv_get_cq_event(3), ibv_req_notify_cq(3). */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>

static void nonblocking(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

static int get(struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	void *context;
	int r;

	errno = 0;
	r = ibv_get_cq_event(ch, cq, &context);
	if (!r)
		CHECK(context == (*cq)->cq_context);
	return r;
}

/* A non-blocking channel may be readable because of an arrival. Then it has no event still. */
static void want_none(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq;

	CHECK(get(ch, &cq) == -1 && errno == EAGAIN);
}

/* A thread that blocks in ibv_get_cq_event while nobody polls. */
static void *wait_event(void *arg)
{
	struct ibv_cq *cq = NULL;

	EQUAL(get(arg, &cq), 0);
	return cq;
}

struct destroying {
	struct ibv_cq *cq;
	int done;
};

static void *destroy(void *arg)
{
	struct destroying *d = arg;

	EQUAL(ibv_destroy_cq(d->cq), 0);
	__atomic_store_n(&d->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void one_message(struct end *a, struct end *b, int solicited)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a->buf, .length = 1, .lkey = a->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)},
			   *bad;

	EQUAL(post_recv(b, 1, 0, 100), 0);
	EQUAL(ibv_post_send(a->qp, &wr, &bad), 0);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq, *other, *got;
	struct destroying d;
	struct end a, b;
	pthread_t t;
	void *result;

	MUST(ch = ibv_create_comp_channel(ctx));
	EQUAL(ch->refcnt, 0);
	CHECK(fcntl(ch->fd, F_GETFD) & FD_CLOEXEC);
	MUST(cq = ibv_create_cq(ctx, 16, &a, ch, 0));
	MUST(other = ibv_create_cq(ctx, 16, &b, ch, 0));
	EQUAL(ch->refcnt, 2);
	EQUAL(ibv_destroy_comp_channel(ch), EBUSY);
	CHECK(cq->channel == ch);

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, cq);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);

	/* O_NONBLOCK is the application's. */
	nonblocking(ch->fd, 1);
	EQUAL(get(ch, &got), -1);
	EQUAL(errno, EAGAIN);

	/* Not armed: no event. Armed: one, and no more. */
	one_message(&a, &b, 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	want_none(ch);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	one_message(&a, &b, 0);
	one_message(&a, &b, 0);
	CHECK(readable(ch->fd, PATIENCE_MS));
	EQUAL(get(ch, &got), 0);
	CHECK(got == cq);
	EQUAL(get(ch, &got), -1);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);

	/*
	 * Arming notifies at once of completions since the last event that were not polled: UCX arms
	 * and sleeps without another look.
	 */
	one_message(&a, &b, 0);
	want_none(ch);
	EQUAL(ibv_req_notify_cq(cq, 1), 0);
	want_none(ch);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	CHECK(readable(ch->fd, 0));
	EQUAL(get(ch, &got), 0);
	CHECK(got == cq);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	EQUAL(get(ch, &got), -1);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	one_message(&a, &b, 0);
	EQUAL(get(ch, &got), 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	ibv_ack_cq_events(cq, 2);

	/* Solicited only: the plain message makes none. */
	EQUAL(ibv_req_notify_cq(cq, 1), 0);
	one_message(&a, &b, 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	want_none(ch);
	one_message(&a, &b, 1);
	CHECK(readable(ch->fd, PATIENCE_MS));
	EQUAL(get(ch, &got), 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);

	/* A thread that sleeps is woken by a message, though nobody polls. */
	nonblocking(ch->fd, 0);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	MUST(pthread_create(&t, NULL, wait_event, ch) == 0);
	EQUAL(post_recv(&b, 3, 0, 100), 0);
	EQUAL(post_send(&a, 4, 0, 1), 0);
	pthread_join(t, &result);
	CHECK(result == cq);
	WANT_WC(cq, 3, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 4, IBV_WC_SUCCESS);
	ibv_ack_cq_events(cq, 2);

	/* A queue's destruction waits for the event that is not acknowledged. */
	EQUAL(ibv_destroy_qp(b.qp), 0);
	b.qp = NULL;
	d = (struct destroying){.cq = cq};
	MUST(pthread_create(&t, NULL, destroy, &d) == 0);
	poll(NULL, 0, 50);
	CHECK(!__atomic_load_n(&d.done, __ATOMIC_SEQ_CST));
	ibv_ack_cq_events(cq, 1);
	pthread_join(t, NULL);
	EQUAL(ch->refcnt, 1);

	/*
	 * An event that was not read goes with its queue; those of others stay: a
	 * descriptor that polls readable has something to read.
	 */
	MUST(cq = ibv_create_cq(ctx, 16, &a, ch, 0));
	struct end c, e;

	end_open(&c, ctx, cq);
	end_open(&e, ctx, other);
	end_qp(&c, IBV_QPT_RC);
	end_qp(&e, IBV_QPT_RC);
	connect_qps(c.qp, e.qp);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	EQUAL(ibv_req_notify_cq(other, 0), 0);
	EQUAL(post_recv(&e, 5, 0, 100), 0);
	EQUAL(post_send(&c, 6, 0, 1), 0);
	WANT_WC(cq, 6, IBV_WC_SUCCESS);
	WANT_WC(other, 5, IBV_WC_SUCCESS);
	EQUAL(ibv_destroy_qp(c.qp), 0);
	c.qp = NULL;
	EQUAL(ibv_destroy_cq(cq), 0);
	nonblocking(ch->fd, 1);
	CHECK(readable(ch->fd, 0));
	EQUAL(get(ch, &got), 0);
	CHECK(got == other);
	CHECK(!readable(ch->fd, 0));
	ibv_ack_cq_events(other, 1);

	end_close(&c, 0);
	end_close(&e, 0);
	EQUAL(ibv_req_notify_cq(a.cq, 0), 0); /* without a channel it goes nowhere */
	end_close(&a, 1);
	end_close(&b, 0);
	EQUAL(ibv_destroy_cq(other), 0);
	EQUAL(ibv_destroy_comp_channel(ch), 0);
	return finish(ctx);
}
