/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: of completions, by a channel, and asynchronous ones, in a pipe. */
#include "harness.h"

static char memory[4096];
static vb_handle ctx;

static vb_handle channel;
static int event_fd;

/* Waits until the descriptor says that there is an event, and takes it. */
static uint64_t wait_event(void)
{
	struct pollfd p = {.fd = event_fd, .events = POLLIN};
	vb_cookie v = 0;
	int kept = 0;
	CHECK(poll(&p, 1, 10000) == 1);
	CALL(0, e->channel_take(channel, VB_TAKE_SERVE, &v, &kept));
	CHECK(kept == 1);
	return v;
}

int main(int argc, char **argv)
{
	vb_handle pd;
	int async[2];
	start(argc, argv);
	CHECK(!pipe2(async, O_CLOEXEC));
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CALL(0, e->ctx_open(device_name, async[1], &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	int bell, sockets;
	CALL(0, e->channel_open(ctx, event_fd, &channel, &bell, &sockets));
	CHECK(bell >= 0 && sockets >= 0);
	struct cq *ca = new_cq(ctx, 64, 0, 1), *cb = new_cq(ctx, 2, channel, 0xc00c1e);
	CALL(EINVAL, e->cq_arm(ca->handle, 0, 0));
	struct qp a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 3), b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 4);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
	struct mr m = new_mr(pd, memory, sizeof memory);
	struct ibv_sge s = {(uintptr_t)memory, 8, m.lkey};
	struct ibv_send_wr w = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	/* Nobody polls: the engine reads by itself and tells. */
	struct vb_wc wc;
	CALL(0, e->cq_arm(cb->handle, 0, 0));
	e->wake(ctx);
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	CHECK(wait_event() == 0xc00c1e);
	CHECK(poll_cq(cb, &wc) && wc.status == 0);
	WANT_WC(ca, 0, 0, OP_SEND);

	/* Armed for solicited ones: the first says nothing, the second does. */
	CALL(0, e->cq_arm(cb->handle, 1, 0));
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(cb, 1, 0, OP_RECV);
	WANT_WC(ca, 0, 0, OP_SEND);
	struct pollfd p = {.fd = event_fd, .events = POLLIN};
	CHECK(poll(&p, 1, 0) == 0);
	w.send_flags |= IBV_SEND_SOLICITED;
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	CHECK(wait_event() == 0xc00c1e);
	WANT_WC(cb, 1, 0, OP_RECV);
	WANT_WC(ca, 0, 0, OP_SEND);

	/* The thread that asks reads by itself; another one's event shows until it is taken. */
	vb_cookie v0;
	int kept = 0;
	CALL(EAGAIN, e->channel_take(channel, VB_TAKE_WATCH, &v0, &kept));
	for (int i = 0; i < 3; i++) {
		CALL(0, e->cq_arm(cb->handle, 0, 0));
		post_recv(b, 1, memory, 64, m.lkey);
		CALL(0, e->qp_post_send(a.handle, &w, &bad));
		WANT_WC(cb, 1, 0, OP_RECV);
		WANT_WC(ca, 0, 0, OP_SEND);
	}
	for (int i = 0; i < 3; i++)
		CHECK(wait_event() == 0xc00c1e);
	CHECK(poll(&p, 1, 20) == 0);
	CALL(EAGAIN, e->channel_take(channel, VB_TAKE_WATCH, &v0, &kept));

	/* An overrun: the flag for threads that poll, an event for the context. */
	for (int i = 0; i < 3; i++)
		post_recv(b, 1, memory, 64, m.lkey);
	for (int i = 0; i < 3; i++)
		CALL(0, e->qp_post_send(a.handle, &w, &bad));
	for (double end = now() + 10; !atomic_load(&cb->ring.overrun);) {
		e->progress(cb->handle, 1);
		CHECK(now() < end);
	}
	struct vb_async_event v;
	int seen = 0; /* COMM_EST comes first: b received in RTR */
	while (!seen) {
		p.fd = async[0];
		CHECK(poll(&p, 1, 10000) == 1);
		CHECK(read(async[0], &v, sizeof v) == sizeof v);
		if (v.type == IBV_EVENT_CQ_ERR) {
			CHECK(v.object == 2 || v.object == 0xc00c1e);
			seen = 1;
		} else {
			CHECK(v.object == 3 || v.object == 4);
		}
	}

	CALL(0, e->qp_destroy(b.handle));
	CALL(0, e->cq_destroy(cb->handle));

	/* A queue that owes an event when its context is closed owes nothing more. */
	cb = new_cq(ctx, 64, channel, 0x1a7e);
	b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 5);
	a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 6);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
	CALL(0, e->cq_arm(cb->handle, 0, 0));
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(cb, 1, 0, OP_RECV);
	CALL(0, e->ctx_close(ctx));
	p.fd = event_fd;
	CHECK(poll(&p, 1, 0) == 0);
	/* The descriptors are the front's again. */
	CALL(0, e->channel_close(channel));
	CHECK(!close(async[1]) && !close(event_fd));
	printf("ok\n");
	return 0;
}
