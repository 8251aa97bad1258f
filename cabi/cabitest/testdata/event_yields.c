/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread in ibv_get_cq_event that reads packets without an event gives its core away, as the next
 * packets may come at once. After a yield that took a time slice it leaves out those of the next
 * VB_SLEEPS_NS. This program has a sched_yield and a clock of its own.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "giveway.h"
#include "loop.h"

static unsigned yields;
static int slices; /* a yield takes a slice */

static _Atomic uint64_t now = 1; /* of the clock that the library sees */

int sched_yield(void)
{
	yields++;
	atomic_fetch_add(&now, slices ? VB_SLICE_NS : 1);
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = atomic_load(&now);

	(void)clock;
	t->tv_sec = ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
	return 0;
}

struct word {
	uint32_t qp, rkey;
	uint64_t addr;
};

static void tell(int fd, const void *data, size_t n)
{
	MUST(write(fd, data, n) == (ssize_t)n);
}

static void hear(int fd, void *data, size_t n)
{
	MUST(read(fd, data, n) == (ssize_t)n);
}

/* Connects the end with the peer's, which it returns. */
static struct word meet(struct end *e, int fd)
{
	struct word own = {e->qp->qp_num, e->mr->rkey, (uintptr_t)e->buf}, peer;

	tell(fd, &own, sizeof(own));
	hear(fd, &peer, sizeof(peer));
	to_init(e->qp);
	to_rtr(e->qp, peer.qp);
	to_rts(e->qp);
	tell(fd, "", 1);
	hear(fd, &own, 1);
	return peer;
}

/* Writes to the peer as often as it says. */
static void writer(int fd)
{
	struct ibv_context *ctx = open_loopback();
	struct word peer;
	struct end e;
	char byte;

	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	peer = meet(&e, fd);
	while (read(fd, &byte, 1) == 1) {
		EQUAL(post_rdma(&e, IBV_WR_RDMA_WRITE, 1, 8, peer.addr, peer.rkey), 0);
		WANT_WC(e.cq, 1, IBV_WC_SUCCESS);
		tell(fd, &byte, 1);
	}
	exit(failures != 0);
}

/* One WRITE arrives. It has no completion, so the thread finds no event. */
static void arrive(struct ibv_comp_channel *channel, int fd)
{
	struct ibv_cq *cq;
	void *context;
	char byte = 0;

	tell(fd, &byte, 1);
	for (;;) {
		EQUAL(ibv_get_cq_event(channel, &cq, &context), -1);
		EQUAL(errno, EAGAIN);
		if (recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
			return;
		MUST(errno == EAGAIN);
		readable(channel->fd, 1);
	}
}

int main(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	struct end e;
	int fds[2], status;
	pid_t peer;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	MUST((peer = fork()) >= 0);
	if (!peer) {
		close(fds[0]);
		writer(fds[1]);
	}
	close(fds[1]);
	ctx = open_loopback();
	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(cq = ibv_create_cq(ctx, DEPTH, NULL, channel, 0));
	end_open(&e, ctx, cq);
	end_qp(&e, IBV_QPT_RC);
	meet(&e, fds[0]);
	MUST(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);

	/* A yield that others do not take does not end them. */
	while (yields < 3 && !failures)
		arrive(channel, fds[0]);
	/* One that takes a slice does. Each arrival is one packet, so one such read. */
	slices = 1;
	for (unsigned before = yields; yields == before && !failures;)
		arrive(channel, fds[0]);
	yields = 0;
	for (int i = 0; i < 32; i++)
		arrive(channel, fds[0]);
	EQUAL(yields, 0);
	/* They come again. */
	atomic_fetch_add(&now, VB_SLEEPS_NS);
	while (!yields && !failures)
		arrive(channel, fds[0]);

	close(fds[0]);
	MUST(waitpid(peer, &status, 0) == peer);
	EQUAL(status, 0);
	end_close(&e, 1);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	return finish(ctx);
}
