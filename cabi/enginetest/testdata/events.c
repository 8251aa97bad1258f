/* SPDX-License-Identifier: BSD-2-Clause */
/* Events in pipes: of completions, also when the pipe is full, and asynchronous ones. */
#include "harness.h"

static char memory[4096];
static vb_handle ctx;

static uint64_t read_event(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	vb_cq_event v = 0;
	CHECK(poll(&p, 1, 10000) == 1);
	CHECK(read(fd, &v, sizeof v) == sizeof v);
	return v;
}

int main(int argc, char **argv)
{
	vb_handle pd;
	int async[2], chan[2];
	start(argc, argv);
	CHECK(!pipe2(async, O_CLOEXEC) && !pipe2(chan, O_CLOEXEC));
	CALL(0, e->ctx_open(device_name, async[1], &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *ca = new_cq(ctx, 64, -1, 1), *cb = new_cq(ctx, 2, chan[1], 0xc00c1e);
	CHECK(!(fcntl(chan[0], F_GETFL) & O_NONBLOCK)); /* the application's end is its own */
	CALL(EINVAL, e->cq_arm(ca->handle, 0));
	struct qp a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 3), b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 4);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
	struct mr m = new_mr(pd, memory, sizeof memory);
	struct ibv_sge s = {(uintptr_t)memory, 8, m.lkey};
	struct ibv_send_wr w = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	/* Nobody polls: the engine reads by itself and tells. */
	struct vb_wc wc;
	CALL(0, e->cq_arm(cb->handle, 0));
	e->wake(ctx);
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	CHECK(read_event(chan[0]) == 0xc00c1e);
	CHECK(poll_cq(cb, &wc) && wc.status == 0);
	WANT_WC(ctx, ca, 0, 0, OP_SEND);

	/* Armed for solicited ones: the first says nothing, the second does. */
	CALL(0, e->cq_arm(cb->handle, 1));
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ctx, cb, 1, 0, OP_RECV);
	WANT_WC(ctx, ca, 0, 0, OP_SEND);
	struct pollfd p = {.fd = chan[0], .events = POLLIN};
	CHECK(poll(&p, 1, 0) == 0);
	w.send_flags |= IBV_SEND_SOLICITED;
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	CHECK(read_event(chan[0]) == 0xc00c1e);
	WANT_WC(ctx, cb, 1, 0, OP_RECV);
	WANT_WC(ctx, ca, 0, 0, OP_SEND);

	/* A full pipe: what does not fit comes when there is room. */
	int other = fcntl(chan[1], F_DUPFD_CLOEXEC, 0), filler = 0;
	vb_cq_event fill = 0xf111;
	CHECK(fcntl(other, F_GETFL) & O_NONBLOCK);
	while (write(other, &fill, sizeof fill) == sizeof fill)
		filler++;
	CHECK(errno == EAGAIN);
	for (int i = 0; i < 3; i++) {
		CALL(0, e->cq_arm(cb->handle, 0));
		post_recv(b, 1, memory, 64, m.lkey);
		CALL(0, e->qp_post_send(a.handle, &w, &bad));
		WANT_WC(ctx, cb, 1, 0, OP_RECV);
		WANT_WC(ctx, ca, 0, 0, OP_SEND);
	}
	for (int i = 0; i < filler; i++)
		CHECK(read_event(chan[0]) == 0xf111);
	for (int i = 0; i < 3; i++)
		CHECK(read_event(chan[0]) == 0xc00c1e);
	CHECK(poll(&p, 1, 20) == 0);

	/* An overrun: the flag for who polls, an event for the context. */
	for (int i = 0; i < 3; i++)
		post_recv(b, 1, memory, 64, m.lkey);
	for (int i = 0; i < 3; i++)
		CALL(0, e->qp_post_send(a.handle, &w, &bad));
	for (double end = now() + 10; !atomic_load(&cb->ring.overrun);) {
		e->progress(ctx, 1);
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
	cb = new_cq(ctx, 64, chan[1], 0x1a7e);
	b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 5);
	a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 6);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
	while (write(other, &fill, sizeof fill) == sizeof fill)
		;
	CALL(0, e->cq_arm(cb->handle, 0));
	post_recv(b, 1, memory, 64, m.lkey);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ctx, cb, 1, 0, OP_RECV);
	CALL(0, e->ctx_close(ctx));
	for (int i = 0; i < filler; i++)
		CHECK(read_event(chan[0]) == 0xf111);
	p.fd = chan[0];
	CHECK(poll(&p, 1, 120) == 0);
	/* The descriptors are the front's again. */
	CHECK(!close(async[1]) && !close(chan[1]));
	printf("ok\n");
	return 0;
}
