/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that sleeps in poll(2) for a non-blocking completion channel receives all messages,
 * whichever way it looks for completions. Messages come in bursts while it goes to sleep.
 */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#define MESSAGES 1000
#define BURST    8 /* messages that are posted at once */

/* The steps of a thread that was woken. */
struct way {
	const char *name;
	int drains;    /* it takes events until there are none */
	int arms_last; /* it asks for the next event after it has polled, and polls no more */
	int each;      /* completions of one poll */
	int stops;     /* it does not poll again after fewer completions than it asked for */
};

static const struct way ways[] = {
	{"until the queue is empty", 1, 0, 4, 0},
	{"until the queue is empty, one event", 0, 0, 1, 0},
	{"until fewer come than asked for", 1, 0, 4, 1},
	{"until fewer come than asked for, one event", 0, 0, 4, 1},
	{"arms last", 1, 1, 4, 0},
};

struct sleeper {
	const struct way *way;
	struct ibv_comp_channel *channel;
	struct end end;
	unsigned received;
};

static unsigned poll_once(struct sleeper *s, int *n)
{
	struct ibv_wc wc[DEPTH];

	*n = ibv_poll_cq(s->end.cq, s->way->each, wc);
	MUST(*n >= 0);
	for (int i = 0; i < *n; i++) {
		EQUAL(wc[i].status, IBV_WC_SUCCESS);
		EQUAL(wc[i].wr_id, s->received);
		EQUAL(post_recv(&s->end, s->received++ + DEPTH, 0, 64), 0);
	}
	return (unsigned)*n;
}

static void take_events(struct sleeper *s)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(s->channel, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		if (!s->way->drains)
			return;
	}
	EQUAL(errno, EAGAIN);
}

static void look(struct sleeper *s)
{
	int n;

	if (!s->way->arms_last)
		EQUAL(ibv_req_notify_cq(s->end.cq, 0), 0);
	do
		poll_once(s, &n);
	while (n && !(s->way->stops && n < s->way->each));
	if (s->way->arms_last)
		EQUAL(ibv_req_notify_cq(s->end.cq, 0), 0);
}

static void *receive(void *arg)
{
	struct sleeper *s = arg;

	look(s);
	while (s->received < MESSAGES && !failures) {
		if (!readable(s->channel->fd, PATIENCE_MS))
			failed(__FILE__, __LINE__, "%s: %u of %u messages", s->way->name, s->received, MESSAGES);
		take_events(s);
		look(s);
	}
	return NULL;
}

static void messages(struct end *a)
{
	struct ibv_wc wc;
	unsigned sent = 0, done = 0;

	while (done < MESSAGES && !failures) {
		for (unsigned n = 1 + sent % BURST; n && sent < MESSAGES && sent - done < DEPTH; n--)
			EQUAL(post_send(a, sent++, 0, 1), 0);
		if (ibv_poll_cq(a->cq, 1, &wc) > 0) {
			EQUAL(wc.status, IBV_WC_SUCCESS);
			done++;
		}
	}
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct sleeper s = {.way = &ways[i]};
		struct ibv_cq *cq;
		struct end a;
		pthread_t t;

		MUST(s.channel = ibv_create_comp_channel(ctx));
		MUST(fcntl(s.channel->fd, F_SETFL, fcntl(s.channel->fd, F_GETFL) | O_NONBLOCK) == 0);
		MUST(cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, s.channel, 0));
		end_open(&a, ctx, NULL);
		end_open(&s.end, ctx, cq);
		end_qp(&a, IBV_QPT_RC);
		end_qp(&s.end, IBV_QPT_RC);
		connect_qps(a.qp, s.end.qp);
		for (int n = 0; n < DEPTH; n++)
			EQUAL(post_recv(&s.end, n, 0, 64), 0);
		MUST(pthread_create(&t, NULL, receive, &s) == 0);
		messages(&a);
		MUST(pthread_join(t, NULL) == 0);
		EQUAL(s.received, MESSAGES);
		end_close(&a, 1);
		end_close(&s.end, 1);
		EQUAL(ibv_destroy_comp_channel(s.channel), 0);
	}
	return finish(ctx);
}
