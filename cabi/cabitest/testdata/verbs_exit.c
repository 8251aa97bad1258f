/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receiver that exits as soon as it has its message: the sender's request is
 * acknowledged all the same, as an adapter would have done before.
 */
#include "loop.h"

#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 20

static uint32_t read_number(int fd)
{
	uint32_t n;

	MUST(read(fd, &n, sizeof(n)) == sizeof(n));
	return n;
}

static void write_number(int fd, uint32_t n)
{
	MUST(write(fd, &n, sizeof(n)) == sizeof(n));
}

static void receive_and_exit(void)
{
	struct ibv_wc wc;
	struct end e;

	end_open(&e, open_loopback(), NULL);
	end_qp(&e, IBV_QPT_RC);
	to_init(e.qp);
	write_number(1, e.qp->qp_num);
	to_rtr(e.qp, read_number(0));
	to_rts(e.qp);
	EQUAL(post_recv(&e, 1, 0, 100), 0);
	write_number(1, 0);
	MUST(wait_wc(e.cq, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	exit(failures != 0);
}

static void send_to(struct ibv_context *ctx, char *self)
{
	int to[2], from[2], status;
	struct end e;
	pid_t pid;

	MUST(pipe(to) == 0 && pipe(from) == 0);
	pid = vfork();
	MUST(pid >= 0);
	if (pid == 0) {
		if (dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1)
			execl(self, self, "receiver", NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	to_init(e.qp);
	write_number(to[1], e.qp->qp_num);
	to_rtr(e.qp, read_number(from[0]));
	to_rts(e.qp);
	read_number(from[0]);
	EQUAL(post_send(&e, 2, 0, 100), 0);
	WANT_WC(e.cq, 2, IBV_WC_SUCCESS);
	MUST(waitpid(pid, &status, 0) == pid);
	EQUAL(status, 0);
	end_close(&e, 1);
	close(to[1]);
	close(from[0]);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx;

	if (argc > 1)
		receive_and_exit();
	ctx = open_loopback();
	for (int i = 0; i < ROUNDS && !failures; i++)
		send_to(ctx, argv[0]);
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}
