/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application that polls busily for a while, and later closes all descriptors that it does not
 * know, as daemon() and closefrom() do. It lives. Descriptors that it then opens under the numbers
 * of ours are its own: nobody reads, writes or closes them.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUSY_MS 100
/* Longer than anything of ours sleeps that does not sleep for ever. */
#define AFTER_MS 1500

#define KINDS 3
#define FILES (KINDS * 40)

/* A datagram socket to which something was sent, an eventfd, and the end of a pipe. */
static int open_kind(int kind)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd, pipes[2];

	switch (kind) {
	case 0:
		MUST((fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) >= 0);
		MUST(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
		MUST(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
		MUST(sendto(fd, "mine", 4, 0, (struct sockaddr *)&at, sizeof(at)) == 4);
		return fd;
	case 1:
		MUST((fd = eventfd(0, EFD_NONBLOCK)) >= 0);
		return fd;
	default:
		MUST(pipe2(pipes, O_NONBLOCK) == 0); /* the other end stays open */
		MUST(write(pipes[1], "mine", 4) == 4);
		return pipes[0];
	}
}

static void is_untouched(int fd, int kind)
{
	char buf[16];

	errno = 0;
	if (kind == 1) {
		EQUAL(read(fd, buf, sizeof(buf)), -1);
		EQUAL(errno, EAGAIN);
		return;
	}
	EQUAL(read(fd, buf, sizeof(buf)), 4);
	EQUAL(read(fd, buf, sizeof(buf)), -1);
	EQUAL(errno, EAGAIN);
}

static void spin(struct ibv_cq *cq, int ms)
{
	struct ibv_wc wc;

	for (long long end = now_ms() + ms; now_ms() < end;)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct end a, b;
	int files[FILES];

	alarm(120);
	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(post_recv(&b, 1, 0, 100), 0);
	EQUAL(post_send(&a, 2, 0, 100), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	spin(a.cq, BUSY_MS);
	/*
	 * A request that will be repeated, as its peer has no receive for it. This comes each 10 ms: an
	 * engine that is at work just when its descriptors are closed may still use a number once.
	 */
	EQUAL(ibv_modify_qp(b.qp, &(struct ibv_qp_attr){.min_rnr_timer = 20}, IBV_QP_MIN_RNR_TIMER), 0);
	EQUAL(post_send(&a, 3, 0, 100), 0);
	poll(NULL, 0, BUSY_MS);

	MUST(close_range(3, ~0U, 0) == 0);
	for (int i = 0; i < FILES; i++)
		files[i] = open_kind(i % KINDS);
	poll(NULL, 0, AFTER_MS);
	for (int i = 0; i < FILES; i++)
		is_untouched(files[i], i % KINDS);
	return failures != 0;
}
