/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_cq(3): the event of a queue waits for further completions, and for no longer than its period. */
#include "loop.h"

#include <fcntl.h>
#include <stdint.h>

#define LONGEST_US 65535

static struct ibv_comp_channel *channel;
static struct end a, b;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static int moderate(unsigned count, unsigned period)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = (uint16_t)count, .cq_period = (uint16_t)period}};

	return ibv_modify_cq(b.cq, &attr);
}

/* Sends n messages of one byte, and waits until they have arrived. */
static void send_messages(int n, unsigned flags)
{
	for (int i = 0; i < n; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)a.buf, .length = 1, .lkey = a.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

		wr.send_flags = IBV_SEND_SIGNALED | flags;
		EQUAL(post_recv(&b, 2, 0, 8), 0);
		EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
		WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	}
}

static void block(int yes)
{
	int flags = fcntl(channel->fd, F_GETFL);

	MUST(!fcntl(channel->fd, F_SETFL, yes ? flags & ~O_NONBLOCK : flags | O_NONBLOCK));
}

/* Takes an event: 0, or -1 if a channel that does not block has none. */
static int take_event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context)) {
		EQUAL(errno, EAGAIN);
		return -1;
	}
	CHECK(cq == b.cq);
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static void drain(int n)
{
	while (n-- > 0)
		WANT_WC(b.cq, 2, IBV_WC_SUCCESS);
}

/* Waits for the event as an application does that sleeps in poll(2). */
static void poll_event(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	long long end = now_ms() + PATIENCE_MS;

	while (take_event()) { /* the descriptor also shows arrivals without an event */
		MUST(now_ms() < end);
		MUST(poll(&p, 1, PATIENCE_MS) == 1);
	}
}

static void by_count(void)
{
	int64_t begin = now_us();
	int early;

	EQUAL(moderate(4, LONGEST_US), 0);
	EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
	block(0);
	send_messages(3, 0);
	early = !take_event();
	CHECK(!early || now_us() - begin >= LONGEST_US);
	send_messages(1, 0);
	block(1);
	if (!early) /* else the period has passed */
		CHECK(!take_event());
	drain(4);
}

static void by_period(int sleeps_in_poll)
{
	const unsigned period = 3000;
	int64_t begin;

	EQUAL(moderate(9, period), 0);
	EQUAL(ibv_req_notify_cq(b.cq, 1), 0);
	block(!sleeps_in_poll);
	send_messages(2, 0); /* do not count */
	begin = now_us();
	send_messages(2, IBV_SEND_SOLICITED);
	if (sleeps_in_poll)
		poll_event();
	else
		CHECK(!take_event());
	CHECK(now_us() - begin >= period);
	block(0);
	EQUAL(take_event(), -1);
	drain(4);
}

/* Values that keep no event back. */
static void none(unsigned count, unsigned period)
{
	EQUAL(moderate(count, period), 0);
	EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
	block(1);
	send_messages(1, 0);
	CHECK(!take_event());
	drain(1);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_device_attr_ex attr;
	struct ibv_modify_cq_attr nothing = {0};
	struct ibv_cq *cq;

	EQUAL(ibv_query_device_ex(ctx, NULL, &attr), 0);
	EQUAL(attr.cq_mod_caps.max_cq_count, 65535);
	EQUAL(attr.cq_mod_caps.max_cq_period, LONGEST_US);
	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, channel, 0));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, cq);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);

	for (int i = 0; i < 5; i++) {
		by_count();
		by_period(0);
		by_period(1);
	}
	EQUAL(ibv_modify_cq(b.cq, &nothing), 0); /* changes nothing */
	by_count();
	none(0, LONGEST_US);
	none(1, LONGEST_US);
	none(4, 0);

	/* A queue goes with an event that is kept back. */
	EQUAL(moderate(4, 1), 0);
	EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
	send_messages(1, 0);
	unpair(&a, &b);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
