/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives: how many there is room for, which are flushed, late ones, and several threads that post. */
#include "loop.h"

#include <pthread.h>

static struct ibv_context *ctx;

/* A list of n receives of ids from first on. */
static struct ibv_recv_wr *list(struct ibv_recv_wr *wrs, int n, uint64_t first)
{
	memset(wrs, 0, n * sizeof(*wrs));
	for (int i = 0; i < n; i++) {
		wrs[i].wr_id = first + i;
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
	}
	return wrs;
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* The first that finds no room is named; the error state flushes those before it, in order. */
static void full(void)
{
	struct ibv_recv_wr wrs[DEPTH + 3], *bad = NULL;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_post_recv(b.qp, list(wrs, DEPTH + 3, 100), &bad), ENOMEM);
	CHECK(bad == &wrs[DEPTH]);
	EQUAL(post_send(&a, 1, 0, 0), 0);
	WANT_WC(b.cq, 100, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	wrs[1].num_sge = 5; /* of 4 */
	EQUAL(ibv_post_recv(b.qp, wrs, &bad), EINVAL);
	CHECK(bad == &wrs[1]);
	EQUAL(ibv_post_recv(b.qp, wrs, &bad), ENOMEM); /* the first one took the place */
	CHECK(bad == &wrs[0]);
	to_state(b.qp, IBV_QPS_ERR);
	for (int i = 1; i < DEPTH; i++)
		WANT_WC(b.cq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	WANT_WC(b.cq, 100, IBV_WC_WR_FLUSH_ERR);
	EQUAL(ibv_post_recv(b.qp, list(wrs, 3, 200), &bad), 0); /* flushed at once */
	for (int i = 0; i < 3; i++)
		WANT_WC(b.cq, 200 + i, IBV_WC_WR_FLUSH_ERR);
	unpair(&a, &b);
}

/* RESET drops posted receives, and refuses new ones; then all is as new. */
static void reset(void)
{
	struct ibv_recv_wr wrs[DEPTH], *bad = NULL;
	struct end a, b;
	struct ibv_wc wc;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_post_recv(b.qp, list(wrs, DEPTH / 2, 1), &bad), 0);
	to_state(a.qp, IBV_QPS_RESET);
	to_state(b.qp, IBV_QPS_RESET);
	EQUAL(ibv_poll_cq(b.cq, 1, &wc), 0);
	EQUAL(ibv_post_recv(b.qp, wrs, &bad), EINVAL);
	CHECK(bad == &wrs[0]);
	connect_qps(a.qp, b.qp);
	EQUAL(ibv_post_recv(b.qp, list(wrs, DEPTH, 300), &bad), 0);
	EQUAL(post_send(&a, 1, 0, 0), 0);
	WANT_WC(b.cq, 300, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	unpair(&a, &b);
}

/* Posts a receive a while after it is told to. */
static void *post_late(void *arg)
{
	poll(NULL, 0, 30); /* many times the RNR timer */
	EQUAL(post_recv(arg, 7, 0, 100), 0);
	return NULL;
}

/* A message waits for a receive that is posted late, by a thread that does nothing else. */
static void late(void)
{
	struct end a, b;
	pthread_t t;

	pair(&a, &b, ctx, IBV_QPT_RC);
	strcpy(a.buf, "late");
	EQUAL(post_send(&a, 1, 0, 5), 0);
	MUST(pthread_create(&t, NULL, post_late, &b) == 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 7, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf, "late"));
	pthread_join(t, NULL);
	unpair(&a, &b);
}

/* A key that is wrong is found when the receive is used. */
static void wrong_key(void)
{
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	pair(&a, &b, ctx, IBV_QPT_RC);
	sge = (struct ibv_sge){.addr = (uintptr_t)b.buf, .length = 100, .lkey = b.mr->lkey ^ 0xff00};
	EQUAL(ibv_post_recv(b.qp, &wr, &bad), 0);
	EQUAL(post_recv(&b, 2, 0, 100), 0);
	EQUAL(post_send(&a, 3, 0, 5), 0);
	WANT_WC(b.cq, 1, IBV_WC_LOC_PROT_ERR);
	WANT_WC(b.cq, 2, IBV_WC_WR_FLUSH_ERR);
	WANT_WC(a.cq, 3, IBV_WC_REM_OP_ERR);
	unpair(&a, &b);
}

/* -- threads -------------------------------------------------------------------- */

#define POSTERS 2
#define EACH 5000

struct poster {
	struct ibv_qp *qp;
	uint64_t first;
	int taken; /* of EACH */
};

/* Posts receives of no bytes, one after the other. */
static void *post_all(void *arg)
{
	struct poster *p = arg;
	long long end = now_ms() + PATIENCE_MS;

	while (p->taken < EACH && now_ms() < end) {
		struct ibv_recv_wr wr = {.wr_id = p->first + p->taken}, *bad = NULL;
		int err = ibv_post_recv(p->qp, &wr, &bad);

		if (!err) {
			p->taken++;
		} else if (err != ENOMEM || bad != &wr) {
			failed(__FILE__, __LINE__, "post: %d", err);
			break;
		} else {
			sched_yield();
		}
	}
	return NULL;
}

/* Each receive is used once, those of a thread in the order in which it posted them. */
static void threads(void)
{
	struct poster p[POSTERS];
	uint64_t next[POSTERS];
	pthread_t t[POSTERS];
	struct end a, b;
	struct ibv_wc wc;
	int sent = 0, done = 0;

	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < POSTERS; i++) {
		next[i] = (uint64_t)i << 32;
		p[i] = (struct poster){.qp = b.qp, .first = next[i]};
		MUST(pthread_create(&t[i], NULL, post_all, &p[i]) == 0);
	}
	for (int got = 0; got < POSTERS * EACH; got++) {
		do { /* until one is under way: there is room once the sends before it have completed */
			while (ibv_poll_cq(a.cq, 1, &wc) == 1)
				done += wc.status == IBV_WC_SUCCESS;
			while (sent < POSTERS * EACH && sent - got < DEPTH / 2 && sent - done < DEPTH / 2) {
				EQUAL(post_send(&a, 1, 0, 0), 0);
				sent++;
			}
		} while (sent == got);
		MUST(wait_wc(b.cq, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		MUST(wc.wr_id >> 32 < POSTERS && wc.wr_id == next[wc.wr_id >> 32]);
		next[wc.wr_id >> 32]++;
	}
	for (int i = 0; i < POSTERS; i++)
		pthread_join(t[i], NULL);
	unpair(&a, &b);
}

#define ENDS 100

/* Receives that are posted while the queue pair comes to its end are all flushed. */
static void racing(void)
{
	struct end b;

	for (int i = 0; i < ENDS; i++) {
		struct poster p = {.first = 0};
		struct ibv_wc wc;
		pthread_t t;

		end_open(&b, ctx, ibv_create_cq(ctx, 2 * EACH, NULL, NULL, 0));
		end_qp(&b, IBV_QPT_RC);
		to_init(b.qp);
		p.qp = b.qp;
		MUST(pthread_create(&t, NULL, post_all, &p) == 0);
		for (int spin = 0; spin < i * 50; spin++)
			__asm__ volatile("" ::: "memory");
		to_state(b.qp, IBV_QPS_ERR);
		pthread_join(t, NULL);
		EQUAL(p.taken, EACH); /* nothing holds it up: posted receives are flushed */
		for (int k = 0; k < p.taken; k++) {
			MUST(wait_wc(b.cq, &wc) == 1);
			MUST(wc.wr_id == (uint64_t)k && wc.status == IBV_WC_WR_FLUSH_ERR);
		}
		end_close(&b, 1);
	}
}

/* -- shared ----------------------------------------------------------------------- */

/* A shared queue: its end, and one that is resized while it is wrapped around. */
static void shared(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 5, .max_sge = 1}};
	struct ibv_srq_attr size = {.max_wr = 4};
	struct ibv_recv_wr wrs[8], *bad = NULL;
	struct ibv_qp_init_attr_ex init;
	struct ibv_srq *srq;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	MUST(srq = ibv_create_srq(b.pd, &attr));
	init = end_init(&b, IBV_QPT_RC);
	init.srq = srq;
	MUST(b.qp = ibv_create_qp_ex(ctx, &init));
	connect_qps(a.qp, b.qp);
	EQUAL(ibv_post_srq_recv(srq, list(wrs, 8, 10), &bad), ENOMEM);
	CHECK(bad == &wrs[5]);
	for (int i = 0; i < 3; i++) {
		EQUAL(post_send(&a, i, 0, 0), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
		WANT_WC(b.cq, 10 + i, IBV_WC_SUCCESS);
	}
	EQUAL(ibv_post_srq_recv(srq, list(wrs, 3, 20), &bad), 0);
	EQUAL(ibv_modify_srq(srq, &size, IBV_SRQ_MAX_WR), EINVAL); /* 5 are posted */
	size.max_wr = 1 << 30;
	EQUAL(ibv_modify_srq(srq, &size, IBV_SRQ_MAX_WR), EINVAL);
	size.max_wr = 7;
	EQUAL(ibv_modify_srq(srq, &size, IBV_SRQ_MAX_WR), 0);
	EQUAL(ibv_post_srq_recv(srq, list(wrs, 3, 30), &bad), ENOMEM);
	CHECK(bad == &wrs[2]);
	for (int i = 0; i < 7; i++) {
		static const int want[] = {13, 14, 20, 21, 22, 30, 31};

		EQUAL(post_send(&a, i, 0, 0), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
		WANT_WC(b.cq, want[i], IBV_WC_SUCCESS);
	}
	EQUAL(ibv_destroy_qp(b.qp), 0);
	b.qp = NULL;
	EQUAL(ibv_destroy_srq(srq), 0);
	unpair(&a, &b);
}

int main(void)
{
	ctx = open_loopback();
	full();
	reset();
	late();
	wrong_key();
	threads();
	racing();
	shared();
	return finish(ctx);
}
