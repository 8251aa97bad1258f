/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the calls from C into Go where packets come through memory: one for a send, one for the
 * poll that finds the answer, none for a receive, and one for 128 polls that find nothing.
 *
 * Two processes exchange messages. Time stands still for the one that counts, so no thread seems to
 * take its core: its polls do not sleep. Other threads may read a packet first, an acknowledgement
 * may come late, and packets on sockets may come. So one batch of many has to keep to the bounds.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cq.h"
#include "loop.h"
#include "qp.h"

#define MESSAGES 16	/* of a batch */
#define POLLS 12800	/* of a batch that find nothing */
#define EVERY 128	/* polls.c: so many empty polls call once */

static int standing; /* the clock of this process stands still */

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!standing)
		return (int)syscall(SYS_clock_gettime, clock, t);
	*t = (struct timespec){.tv_sec = 1};
	return 0;
}

/* -- counting --------------------------------------------------------------------- */

static const struct vb_engine *engine;
static struct {
	int sends, reads, recvs, naps;
} calls;

static int count_send(vb_handle qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	calls.sends++;
	return engine->qp_post_send(qp, list, bad);
}

static void count_read(vb_handle cq, unsigned n)
{
	calls.reads++;
	engine->progress(cq, n);
}

static int count_recvs(vb_handle qp)
{
	calls.recvs++;
	return engine->qp_recvs_posted(qp);
}

static int count_nap(vb_handle cq, int *bell, int *sockets)
{
	calls.naps++;
	return engine->nap_begin(cq, bell, sockets);
}

static long long real_ms(void)
{
	struct timespec t;

	MUST(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* -- the batches --------------------------------------------------------------------- */

static char message; /* 0: one that is answered, 1: the last */

/* Polls until a receive completes. Returns how many polls found nothing. */
static int receive(struct end *e)
{
	long long until = real_ms() + PATIENCE_MS;
	struct ibv_wc wc[4];
	int empty = 0;

	for (;;) {
		int n = ibv_poll_cq(e->cq, 4, wc), come = 0;

		MUST(n >= 0);
		empty += n == 0;
		for (int i = 0; i < n; i++) {
			MUST(wc[i].status == IBV_WC_SUCCESS);
			come |= wc[i].opcode == IBV_WC_RECV;
		}
		if (come)
			return empty;
		if (empty % 65536 == 65535)
			MUST(real_ms() < until);
	}
}

static void send_byte(struct end *e, char byte)
{
	e->buf[0] = byte;
	MUST(post_send(e, 2, 0, 1) == 0);
}

/* Reports whether a batch of messages and answers took a call each way for each. */
static int messages_keep_to_it(struct end *e)
{
	int empty = 0;

	memset(&calls, 0, sizeof(calls));
	for (int i = 0; i < MESSAGES; i++) {
		MUST(post_recv(e, 1, 64, 1) == 0);
		send_byte(e, 0);
		empty += receive(e);
	}
	EQUAL(calls.sends, MESSAGES);
	EQUAL(calls.recvs, 0);
	return calls.naps == 0 && calls.reads <= MESSAGES + empty / EVERY;
}

/* Reports whether a batch of polls that find nothing took no more calls than one in EVERY. */
static int polls_keep_to_it(struct end *e)
{
	struct ibv_wc wc[4];

	memset(&calls, 0, sizeof(calls));
	for (int i = 0; i < POLLS; i++) {
		int n = ibv_poll_cq(e->cq, 4, wc);

		MUST(n >= 0);
		for (int j = 0; j < n; j++)
			MUST(wc[j].status == IBV_WC_SUCCESS && wc[j].opcode == IBV_WC_SEND);
		if (n)
			return 0;
	}
	EQUAL(calls.recvs, 0);
	EQUAL(calls.sends, 0);
	return calls.naps == 0 && calls.reads <= POLLS / EVERY;
}

static void try_batches(const char *what, int (*keeps)(struct end *), struct end *e)
{
	long long until = real_ms() + PATIENCE_MS;
	int batches = 1;

	for (; !keeps(e); batches++) {
		if (failures || real_ms() >= until) {
			failed(__FILE__, __LINE__, "%s: the last of %d batches took %d reads, %d naps", what,
			       batches, calls.reads, calls.naps);
			return;
		}
	}
	printf("%s: batch %d took %d sends, %d reads\n", what, batches, calls.sends, calls.reads);
}

/* -- the processes --------------------------------------------------------------------- */

static void open_end(struct end *e, int fd)
{
	uint32_t peer;

	end_open(e, open_loopback(), NULL);
	end_qp(e, IBV_QPT_RC);
	MUST(write(fd, &e->qp->qp_num, sizeof(peer)) == sizeof(peer));
	MUST(read(fd, &peer, sizeof(peer)) == sizeof(peer));
	to_init(e->qp);
	to_rtr(e->qp, peer);
	to_rts(e->qp);
	MUST(post_recv(e, 1, 64, 1) == 0);
	MUST(write(fd, "", 1) == 1 && read(fd, &message, 1) == 1);
}

/* Answers each message, but the last. */
static void answer(int fd)
{
	struct end e;

	open_end(&e, fd);
	for (;;) {
		receive(&e);
		if (e.buf[64])
			break;
		MUST(post_recv(&e, 1, 64, 1) == 0);
		send_byte(&e, 0);
	}
	MUST(write(fd, "", 1) == 1);
	exit(failures != 0);
}

int main(void)
{
	struct vb_engine counting;
	int fds[2], status;
	struct end e;
	pid_t peer;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	MUST((peer = fork()) >= 0);
	if (!peer) {
		close(fds[0]);
		answer(fds[1]);
	}
	close(fds[1]);
	standing = 1; /* before the first poll */
	open_end(&e, fds[0]);
	send_byte(&e, 0); /* takes the receive that open_end posted */
	receive(&e);

	engine = vb_cq_of(e.cq)->engine;
	counting = *engine;
	counting.qp_post_send = count_send;
	counting.progress = count_read;
	counting.qp_recvs_posted = count_recvs;
	counting.nap_begin = count_nap;
	vb_cq_of(e.cq)->engine = &counting;
	vb_qp_of(e.qp)->engine = &counting;
	try_batches("messages", messages_keep_to_it, &e);
	try_batches("empty polls", polls_keep_to_it, &e);
	vb_cq_of(e.cq)->engine = engine;
	vb_qp_of(e.qp)->engine = engine;

	send_byte(&e, 1);
	MUST(read(fds[0], &message, 1) == 1);
	MUST(waitpid(peer, &status, 0) == peer);
	EQUAL(status, 0);
	end_close(&e, 1);
	return finish(e.ctx);
}
