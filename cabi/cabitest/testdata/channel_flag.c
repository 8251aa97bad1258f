/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_get_cq_event(3) asks fcntl(2) for O_NONBLOCK only if the flag may have changed since the
 * program set it. This program has an fcntl of its own, which counts and calls that of
 * libverbena-preload.so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "loop.h"

static unsigned asked;

int fcntl(int fd, int command, ...)
{
	int (*next)(int, int, ...) = dlsym(RTLD_NEXT, "fcntl");
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	asked += command == F_GETFL;
	return next(fd, command, arg);
}

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct end a, b;

/* There is no event, and the library asks for the flag, or knows it. */
static void want_none(int asks)
{
	unsigned before = asked;
	struct ibv_cq *of;
	void *context;

	CHECK(ibv_get_cq_event(channel, &of, &context) == -1 && errno == EAGAIN);
	EQUAL(asked != before, asks);
}

static void *send_one(void *unused)
{
	(void)unused;
	EQUAL(post_send(&a, 2, 0, 1), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	return NULL;
}

/* The channel blocks: there is no event before another thread has sent. */
static void blocks(void)
{
	struct ibv_cq *of;
	void *context;
	pthread_t t;

	EQUAL(post_recv(&b, 1, 0, 100), 0);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	MUST(pthread_create(&t, NULL, send_one, NULL) == 0);
	MUST(ibv_get_cq_event(channel, &of, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	MUST(pthread_join(t, NULL) == 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	int on = 1, off = 0, other;

	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	want_none(0); /* no queue yet */
	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, channel, 0));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, cq);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	for (int i = 0; i < 50 && !failures; i++) {
		MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
		want_none(0);
		EQUAL(ibv_req_notify_cq(cq, 0), 0);
		want_none(0);
		MUST(fcntl(channel->fd, F_SETFL, 0) == 0);
		blocks();
	}
	MUST(ioctl(channel->fd, FIONBIO, &on) == 0);
	want_none(1);
	MUST(ioctl(channel->fd, FIONBIO, &off) == 0);
	blocks();
	MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	want_none(0);
	MUST((other = dup(channel->fd)) >= 0);
	want_none(1);
	MUST(fcntl(other, F_SETFL, 0) == 0);
	blocks();
	MUST(fcntl(other, F_SETFL, O_NONBLOCK) == 0);
	want_none(1);
	MUST(close(other) == 0);
	end_close(&a, 1);
	end_close(&b, 1);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
