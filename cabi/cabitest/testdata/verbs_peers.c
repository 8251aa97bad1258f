/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that come, send and are killed, while threads poll for their messages. */
#include "loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEERS 12
#define MESSAGES 100

static int stop;

static void say(int fd, uint32_t number)
{
	MUST(write(fd, &number, sizeof(number)) == sizeof(number));
}

static uint32_t hear(int fd)
{
	uint32_t number;

	MUST(read(fd, &number, sizeof(number)) == sizeof(number));
	return number;
}

/* A peer of its own process: it sends, and then is no more. */
static void be_peer(int from, int to)
{
	struct end a;

	end_open(&a, open_loopback(), NULL);
	end_qp(&a, IBV_QPT_RC);
	say(to, a.qp->qp_num);
	to_init(a.qp);
	to_rtr(a.qp, hear(from));
	to_rts(a.qp);
	hear(from);
	for (int i = 0; i < MESSAGES; i++) {
		EQUAL(post_send(&a, i, 0, 8), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
	}
	MUST(!failures);
	kill(getpid(), SIGKILL);
}

/* Makes peers, and uses no verbs itself. */
static void make_peers(int from, int to)
{
	for (int i = 0; i < PEERS; i++) {
		pid_t pid = fork();
		int status;

		MUST(pid >= 0);
		if (!pid)
			be_peer(from, to);
		MUST(waitpid(pid, &status, 0) == pid);
		MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	exit(0);
}

/* Polls a queue on which nothing comes. */
static void *look(void *arg)
{
	struct ibv_wc wc;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		EQUAL(ibv_poll_cq(arg, 1, &wc), 0);
	return NULL;
}

int main(void)
{
	int there[2], back[2], status;
	struct ibv_context *ctx;
	struct ibv_cq *nothing;
	struct end b;
	pthread_t t;
	pid_t pid;

	MUST(!pipe(there) && !pipe(back));
	pid = fork();
	MUST(pid >= 0);
	if (!pid)
		make_peers(there[0], back[1]);
	ctx = open_loopback();
	MUST(nothing = ibv_create_cq(ctx, 1, NULL, NULL, 0));
	MUST(pthread_create(&t, NULL, look, nothing) == 0);
	for (int i = 0; i < PEERS; i++) {
		uint32_t peer = hear(back[0]);

		end_open(&b, ctx, NULL);
		end_qp(&b, IBV_QPT_RC);
		say(there[1], b.qp->qp_num);
		to_init(b.qp);
		to_rtr(b.qp, peer);
		to_rts(b.qp);
		for (int k = 0; k < DEPTH; k++)
			EQUAL(post_recv(&b, k, 0, 8), 0);
		say(there[1], 0);
		for (int k = 0; k < MESSAGES; k++) {
			WANT_WC(b.cq, k % DEPTH, IBV_WC_SUCCESS);
			EQUAL(post_recv(&b, k % DEPTH, 0, 8), 0);
		}
		end_close(&b, 1);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	EQUAL(ibv_destroy_cq(nothing), 0);
	return finish(ctx);
}
