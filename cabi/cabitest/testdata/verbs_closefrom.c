/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application that closes all descriptors that it does not know, as daemons
 * do when they start, after it has made verbs objects: they are of no use any
 * more, but each call returns, the process lives, and it ends as it wants to.
 */
#include "loop.h"

#include <fcntl.h>
#include <unistd.h>

/* Longer than the Go runtime leaves its poller alone. */
#define A_WHILE_MS 100
/* Less than a thread of ours may wait for descriptors. */
#define PROMPT_MS 5000

static void close_all(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback(), *another;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	struct end a, b, c;
	long long began;

	alarm(120);
	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(post_recv(&b, 1, 0, 100), 0);
	poll(NULL, 0, A_WHILE_MS); /* all threads of ours wait for descriptors */
	close_all();
	poll(NULL, 0, A_WHILE_MS);

	post_send(&a, 2, 0, 100); /* which may arrive: mappings stay */
	for (long long end = now_ms() + A_WHILE_MS; now_ms() < end;)
		ibv_poll_cq(a.cq, 1, &wc);
	EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);

	/* Descriptors opened now have the numbers of ours. */
	for (int i = 0; i < 20; i++)
		MUST(open("/dev/null", O_WRONLY) >= 3);
	end_open(&c, ctx, NULL);
	end_close(&c, 1);
	unpair(&a, &b);
	if ((another = ibv_open_device(ctx->device)))
		ibv_close_device(another);
	began = now_ms();
	ibv_close_device(ctx);
	CHECK(now_ms() - began < PROMPT_MS);
	poll(NULL, 0, A_WHILE_MS);
	return failures != 0;
}
