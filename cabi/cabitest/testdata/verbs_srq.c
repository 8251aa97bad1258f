/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues and asynchronous events: ibv_create_srq(3), ibv_get_async_event(3). */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>

static int post(struct ibv_srq *srq, struct end *e, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 100, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void nonblocking(int fd)
{
	MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

/* The next event of a type; others, such as COMM_EST, may come before it. */
static struct ibv_async_event event_of(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event e = {0};

	for (;;) {
		MUST(readable(ctx->async_fd, PATIENCE_MS));
		MUST(ibv_get_async_event(ctx, &e) == 0);
		if (e.event_type == type)
			return e;
		ibv_ack_async_event(&e);
	}
}

struct destroying {
	struct ibv_srq *srq;
	int done;
};

static void *destroy(void *arg)
{
	struct destroying *d = arg;

	EQUAL(ibv_destroy_srq(d->srq), 0);
	__atomic_store_n(&d->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_srq_init_attr attr = {.srq_context = &attr, .attr = {.max_wr = 20, .max_sge = 2}};
	struct ibv_srq_attr limit = {.srq_limit = 3}, got;
	struct ibv_qp_init_attr_ex init;
	struct ibv_async_event event;
	struct ibv_recv_wr *bad;
	struct destroying d;
	struct ibv_srq *srq;
	struct end a, b;
	uint32_t number;
	pthread_t t;

	nonblocking(ctx->async_fd);
	errno = 0;
	EQUAL(ibv_get_async_event(ctx, &event), -1);
	EQUAL(errno, EAGAIN);

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	MUST(srq = ibv_create_srq(b.pd, &attr));
	CHECK(attr.attr.max_wr >= 20 && attr.attr.max_sge >= 2);
	CHECK(srq->srq_context == &attr && srq->pd == b.pd && srq->context == ctx);
	EQUAL(ibv_get_srq_num(srq, &number), EOPNOTSUPP); /* only XRC's have one */
	memset(&got, 0xff, sizeof(got));
	EQUAL(ibv_query_srq(srq, &got), 0);
	EQUAL(got.max_wr, attr.attr.max_wr);
	EQUAL(got.srq_limit, 0);

	end_qp(&a, IBV_QPT_RC);
	init = end_init(&b, IBV_QPT_RC);
	init.srq = srq;
	MUST(b.qp = ibv_create_qp_ex(ctx, &init));
	CHECK(b.qp->srq == srq);
	connect_qps(a.qp, b.qp);
	EQUAL(ibv_destroy_srq(srq), EBUSY);

	struct ibv_recv_wr direct = {0};

	EQUAL(ibv_post_recv(b.qp, &direct, &bad), EINVAL); /* it has the shared one */
	CHECK(bad == &direct);

	for (int i = 0; i < 5; i++)
		EQUAL(post(srq, &b, i), 0);
	EQUAL(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	EQUAL(ibv_query_srq(srq, &got), 0);
	EQUAL(got.srq_limit, 3);
	EQUAL(ibv_modify_srq(srq, &limit, 1 << 5), EINVAL);
	CHECK(!readable(ctx->async_fd, 0) || (event = event_of(ctx, IBV_EVENT_COMM_EST), ibv_ack_async_event(&event), 1));

	for (int i = 0; i < 3; i++) {
		EQUAL(post_send(&a, 10 + i, 0, 1), 0);
		WANT_WC(a.cq, 10 + i, IBV_WC_SUCCESS);
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
	}
	event = event_of(ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == srq);
	EQUAL(ibv_query_srq(srq, &got), 0);
	EQUAL(got.srq_limit, 0); /* it strikes once */

	/* Growing keeps posted receives. */
	struct ibv_srq_attr larger = {.max_wr = 100};

	EQUAL(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR), 0);
	EQUAL(ibv_query_srq(srq, &got), 0);
	CHECK(got.max_wr >= 100);
	EQUAL(post_send(&a, 20, 0, 1), 0);
	WANT_WC(a.cq, 20, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 3, IBV_WC_SUCCESS);

	/* The queue pair's end: LAST_WQE_REACHED, which goes with it unread. */
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	EQUAL(ibv_modify_qp(b.qp, &err, IBV_QP_STATE), 0);
	struct ibv_async_event last = event_of(ctx, IBV_EVENT_QP_LAST_WQE_REACHED);

	CHECK(last.element.qp == b.qp);
	ibv_ack_async_event(&last);
	EQUAL(ibv_destroy_qp(b.qp), 0);
	MUST(b.qp = ibv_create_qp_ex(ctx, &init));
	to_init(b.qp);
	EQUAL(ibv_modify_qp(b.qp, &err, IBV_QP_STATE), 0);
	CHECK(readable(ctx->async_fd, PATIENCE_MS));
	EQUAL(ibv_destroy_qp(b.qp), 0);
	b.qp = NULL;
	CHECK(!readable(ctx->async_fd, 0));

	/* The SRQ's destruction waits for its event's acknowledgement. */
	d = (struct destroying){.srq = srq};
	MUST(pthread_create(&t, NULL, destroy, &d) == 0);
	poll(NULL, 0, 50);
	CHECK(!__atomic_load_n(&d.done, __ATOMIC_SEQ_CST));
	ibv_ack_async_event(&event);
	pthread_join(t, NULL);

	unpair(&a, &b);
	return finish(ctx);
}
