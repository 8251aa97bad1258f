/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork: before the first object, after it, in a child's child, while the parent
 * goes on, and with a child that is killed. Every process does RC by itself.
 */
#include "loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One message over a pair. */
static void exchange(struct end *a, struct end *b)
{
	EQUAL(post_recv(b, 1, 0, 100), 0);
	snprintf(a->buf, 100, "from process %d", getpid());
	EQUAL(post_send(a, 2, 0, 100), 0);
	WANT_WC(b->cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(a->buf, b->buf));
}

static void whole_life(struct ibv_context *ctx)
{
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < 10; i++)
		exchange(&a, &b);
	unpair(&a, &b);
}

/* Waits for a child that ends well. */
static void reap(pid_t pid)
{
	int status;

	EQUAL(waitpid(pid, &status, 0), pid);
	EQUAL(status, 0);
}

/* The parent's objects are dead here: calls are refused, polling finds nothing, destroying
 * works. */
static void dead(struct end *a, struct end *b)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	EQUAL(post_send(a, 3, 0, 10), EIO);
	EQUAL(post_recv(b, 3, 0, 10), EIO);
	EQUAL(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init), EIO);
	for (int i = 0; i < 1000; i++)
		CHECK(ibv_poll_cq(a->cq, 1, &wc) <= 0);
	REFUSED(ibv_reg_mr(a->pd, a->buf, 100, IBV_ACCESS_LOCAL_WRITE), EIO);
}

static void after(struct ibv_context *ctx, int depth)
{
	struct end a, b;
	pid_t pid;
	int go[2];
	char c;

	pair(&a, &b, ctx, IBV_QPT_RC);
	exchange(&a, &b);
	MUST(pipe(go) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		dead(&a, &b);
		whole_life(ctx);
		if (depth > 0)
			after(ctx, depth - 1);
		EQUAL(read(go[0], &c, 1), 1); /* not before the parent has gone on */
		_exit(failures != 0);
	}
	for (int i = 0; i < 100; i++)
		exchange(&a, &b);
	EQUAL(write(go[1], "", 1), 1);
	reap(pid);
	exchange(&a, &b);
	unpair(&a, &b);
	close(go[0]);
	close(go[1]);
}

/* A child in the middle of its work is killed. */
static void killed(struct ibv_context *ctx)
{
	struct end a, b;
	int ready[2], status;
	pid_t pid;
	char c;

	pair(&a, &b, ctx, IBV_QPT_RC);
	exchange(&a, &b);
	MUST(pipe(ready) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		struct end c, d;

		pair(&c, &d, ctx, IBV_QPT_RC);
		for (int i = 0;; i++) {
			exchange(&c, &d);
			if (i == 10)
				EQUAL(write(ready[1], "", 1), 1);
		}
	}
	EQUAL(read(ready[0], &c, 1), 1);
	EQUAL(kill(pid, SIGKILL), 0);
	EQUAL(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	for (int i = 0; i < 100; i++)
		exchange(&a, &b);
	unpair(&a, &b);
	whole_life(ctx);
	close(ready[0]);
	close(ready[1]);
}

/* A child's asynchronous events are its own, under the descriptor's old number and flags. */
static void events(struct ibv_context *ctx)
{
	struct stat before, after;
	pid_t pid;

	MUST(fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK) == 0);
	whole_life(ctx);
	EQUAL(fstat(ctx->async_fd, &before), 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		struct ibv_async_event e;
		struct end a, b;

		pair(&a, &b, ctx, IBV_QPT_RC);
		while (ibv_get_async_event(ctx, &e) == 0)
			ibv_ack_async_event(&e); /* that the connection stands */
		EQUAL(errno, EAGAIN);
		EQUAL(fstat(ctx->async_fd, &after), 0);
		CHECK(after.st_ino != before.st_ino); /* not the parent's pipe */
		CHECK(fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK);
		CHECK(fcntl(ctx->async_fd, F_GETFD) & FD_CLOEXEC);
		unpair(&a, &b);
		_exit(failures != 0);
	}
	reap(pid);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_device_attr attr;
	pid_t pid;

	/* Opened and queried, with no object yet. */
	EQUAL(ibv_query_device(ctx, &attr), 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		whole_life(ctx);
		_exit(finish(ctx));
	}
	reap(pid);
	whole_life(ctx);

	after(ctx, 2);
	killed(ctx);
	events(ctx);
	EQUAL(ibv_fork_init(), 0);
	EQUAL(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	return finish(ctx);
}
