/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that sleeps in epoll_wait(2) for a non-blocking completion channel, while another
 * thread polls for other messages: messages wake the sleeping thread only if they are for it.
 */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MESSAGES    1000
#define EMPTY_POLLS 64 /* between messages: the thread polls */

struct watcher {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	atomic_uint wakes, events;
};

/* Asks for a notification, and polls once before the next sleep. */
static void arm(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		EQUAL(wc.status, IBV_WC_SUCCESS);
}

/* Sleeps until the first event. */
static void *watch(void *arg)
{
	struct watcher *w = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct ibv_cq *cq;
	void *context;

	MUST(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, w->channel->fd, &ev) == 0);
	while (!w->events) {
		arm(w->cq);
		EQUAL(epoll_wait(set, &ev, 1, PATIENCE_MS), 1);
		w->wakes++;
		while (ibv_get_cq_event(w->channel, &cq, &context) == 0) {
			ibv_ack_cq_events(cq, 1);
			w->events++;
		}
		EQUAL(errno, EAGAIN);
	}
	close(set);
	return NULL;
}

static void one_message(struct end *a, struct end *b, struct ibv_cq *polled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a->buf, .length = 1, .lkey = a->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	EQUAL(post_recv(b, 1, 0, 100), 0);
	EQUAL(ibv_post_send(a->qp, &wr, &bad), 0);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
	if (polled)
		WANT_WC(polled, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < EMPTY_POLLS; i++)
		EQUAL(ibv_poll_cq(a->cq, 1, &wc), 0);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct watcher w = {0};
	struct end a, b, c, d;
	pthread_t t;

	MUST(w.channel = ibv_create_comp_channel(ctx));
	MUST(fcntl(w.channel->fd, F_SETFL, fcntl(w.channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	MUST(w.cq = ibv_create_cq(ctx, 16, NULL, w.channel, 0));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	end_open(&c, ctx, NULL);
	end_open(&d, ctx, w.cq);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	end_qp(&c, IBV_QPT_RC);
	end_qp(&d, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	connect_qps(c.qp, d.qp);

	one_message(&a, &b, b.cq);
	MUST(pthread_create(&t, NULL, watch, &w) == 0);
	for (int i = 0; i < MESSAGES; i++)
		one_message(&a, &b, b.cq);
	EQUAL(w.events, 0);
	CHECK(w.wakes < MESSAGES / 20);

	one_message(&c, &d, NULL); /* this one is for the thread that sleeps */
	MUST(pthread_join(t, NULL) == 0);
	EQUAL(w.events, 1);

	end_close(&a, 1);
	end_close(&b, 1);
	end_close(&c, 1);
	end_close(&d, 1);
	EQUAL(ibv_destroy_comp_channel(w.channel), 0);
	return finish(ctx);
}
