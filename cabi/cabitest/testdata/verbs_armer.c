/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls, and now and then arms a non-blocking completion channel but does not sleep,
 * as UCX does: messages for its other queues do not make the channel readable. Each would cost the
 * peer a bell. The channel becomes readable again for a thread that sleeps.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "loop.h"

#define ROUNDS 200
#define POLLS 32 /* after each time that it arms the channel */

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq; /* the channel's */
static struct end a, b;

/* Takes the events of the channel, arms it, and looks once more. */
static void arm(void)
{
	struct ibv_cq *of;
	struct ibv_wc wc;
	void *context;

	while (ibv_get_cq_event(channel, &of, &context) == 0)
		ibv_ack_cq_events(of, 1);
	EQUAL(errno, EAGAIN);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

static void spin(int polls)
{
	struct ibv_wc wc;

	for (int i = 0; i < polls; i++) {
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
		EQUAL(ibv_poll_cq(b.cq, 1, &wc), 0);
	}
}

/* Reports whether a message for another queue makes the channel readable. */
static int shows_message(void)
{
	int shows;

	EQUAL(post_recv(&b, 1, 0, 100), 0);
	EQUAL(post_send(&a, 2, 0, 1), 0);
	shows = readable(channel->fd, 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	return shows;
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	int shown = 0;

	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	MUST(cq = ibv_create_cq(ctx, 16, NULL, channel, 0));
	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < ROUNDS; i++) {
		arm();
		spin(POLLS);
		if (i >= ROUNDS / 2)
			shown += shows_message();
	}
	printf("readable after %d of %d messages\n", shown, ROUNDS / 2);
	CHECK(shown < ROUNDS / 10); /* a thread that gets no core for long does not poll */

	shown = 0;
	for (int i = 0; i < ROUNDS; i++) {
		arm();
		usleep(100);
		if (i >= ROUNDS / 2)
			shown += shows_message();
	}
	printf("readable after %d of %d messages to a thread that sleeps\n", shown, ROUNDS / 2);
	CHECK(shown > 0); /* unless the background goroutine was first */

	unpair(&a, &b);
	EQUAL(ibv_destroy_cq(cq), 0);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
