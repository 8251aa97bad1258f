/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bad_wr: a post that succeeds does not write it, one that fails makes it point
 * to the element of the chain that was refused. Those before it are posted.
 */
#include "loop.h"

#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHAIN 5
#define UNTOUCHED ((void *)&failures)

static struct ibv_context *ctx;

/* Polls n completions with the wr_ids 0 to n-1 and the status; then there is none. */
static void drain(struct ibv_cq *cq, int n, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++)
		WANT_WC(cq, i, status);
	EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

/* A chain of receives; the one at broken has too many elements. */
static void recv_chain(struct ibv_recv_wr *wr, struct ibv_sge *sge, int broken)
{
	for (int i = 0; i < CHAIN; i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i,
					     .next = i + 1 < CHAIN ? wr + i + 1 : NULL,
					     .sg_list = sge,
					     .num_sge = i == broken ? 1 << 20 : 1};
}

static void receives(void)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct ibv_sge sge;
	struct end e;

	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	sge = (struct ibv_sge){.addr = (uintptr_t)e.buf, .length = 8, .lkey = e.mr->lkey};
	bad = UNTOUCHED;
	recv_chain(wr, &sge, -1);
	EQUAL(ibv_post_recv(e.qp, wr, &bad), EINVAL); /* in RESET */
	CHECK(bad == wr);
	to_init(e.qp);
	for (int broken = 0; broken < CHAIN; broken++) {
		recv_chain(wr, &sge, broken);
		bad = UNTOUCHED;
		EQUAL(ibv_post_recv(e.qp, wr, &bad), EINVAL);
		CHECK(bad == wr + broken);
		EQUAL(ibv_modify_qp(e.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
		drain(e.cq, broken, IBV_WC_WR_FLUSH_ERR);
		EQUAL(ibv_modify_qp(e.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE), 0);
		to_init(e.qp);
	}
	recv_chain(wr, &sge, -1);
	bad = UNTOUCHED;
	EQUAL(ibv_post_recv(e.qp, wr, &bad), 0);
	CHECK(bad == UNTOUCHED);
	EQUAL(ibv_post_recv(e.qp, wr, NULL), 0); /* nothing is written */
	int err;

	while (!(err = ibv_post_recv(e.qp, wr, &bad)))
		CHECK(bad == UNTOUCHED);
	EQUAL(err, ENOMEM);
	CHECK(bad >= wr && bad < wr + CHAIN);
	EQUAL(ibv_post_recv(e.qp, wr, NULL), ENOMEM);
	end_close(&e, 1);
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 2 * CHAIN, .max_sge = 1}};
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct ibv_sge sge;
	struct ibv_srq *srq;
	struct end e;

	end_open(&e, ctx, NULL);
	sge = (struct ibv_sge){.addr = (uintptr_t)e.buf, .length = 8, .lkey = e.mr->lkey};
	for (int broken = 0; broken < CHAIN; broken++) {
		MUST(srq = ibv_create_srq(e.pd, &attr));
		recv_chain(wr, &sge, broken);
		bad = UNTOUCHED;
		EQUAL(ibv_post_srq_recv(srq, wr, &bad), EINVAL);
		CHECK(bad == wr + broken);
		EQUAL(ibv_destroy_srq(srq), 0);
	}
	MUST(srq = ibv_create_srq(e.pd, &attr));
	recv_chain(wr, &sge, -1);
	bad = UNTOUCHED;
	EQUAL(ibv_post_srq_recv(srq, wr, &bad), 0);
	CHECK(bad == UNTOUCHED);
	EQUAL(ibv_post_srq_recv(srq, wr, NULL), 0);
	EQUAL(ibv_destroy_srq(srq), 0);
	end_close(&e, 1);
}

static void sends(void)
{
	struct ibv_send_wr wr[CHAIN], *bad;
	struct ibv_sge sge;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 8, .lkey = a.mr->lkey};
	for (int broken = CHAIN; broken >= -1; broken--) {
		for (int i = 0; i < CHAIN; i++) {
			wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
						     .next = i + 1 < CHAIN ? wr + i + 1 : NULL,
						     .sg_list = &sge,
						     .num_sge = 1,
						     .opcode = i == broken ? (enum ibv_wr_opcode)99 : IBV_WR_RDMA_WRITE,
						     .send_flags = IBV_SEND_SIGNALED};
			wr[i].wr.rdma.remote_addr = (uintptr_t)b.buf;
			wr[i].wr.rdma.rkey = b.mr->rkey;
		}
		bad = UNTOUCHED;
		if (broken < 0 || broken == CHAIN) {
			EQUAL(ibv_post_send(a.qp, wr, &bad), 0);
			CHECK(bad == UNTOUCHED);
			drain(a.cq, CHAIN, IBV_WC_SUCCESS);
			EQUAL(ibv_post_send(a.qp, wr, NULL), 0);
			drain(a.cq, CHAIN, IBV_WC_SUCCESS);
			continue;
		}
		EQUAL(ibv_post_send(a.qp, wr, &bad), EINVAL);
		CHECK(bad == wr + broken);
		drain(a.cq, broken, IBV_WC_SUCCESS);
		EQUAL(ibv_post_send(a.qp, wr + broken, NULL), EINVAL);
	}
	unpair(&a, &b);
}

/* In a child of a fork, whose objects are dead, the first element is refused. */
static void in_child(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = UNTOUCHED;
	struct ibv_recv_wr recv = {0}, *bad_recv = UNTOUCHED;
	struct ibv_srq *srq;
	struct end a, b;
	int status;
	pid_t child;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(srq = ibv_create_srq(a.pd, &attr));
	MUST((child = fork()) >= 0);
	if (!child) {
		EQUAL(ibv_post_send(a.qp, &send, &bad_send), EIO);
		CHECK(bad_send == &send);
		EQUAL(ibv_post_recv(a.qp, &recv, &bad_recv), EIO);
		CHECK(bad_recv == &recv);
		bad_recv = UNTOUCHED;
		EQUAL(ibv_post_srq_recv(srq, &recv, &bad_recv), EIO);
		CHECK(bad_recv == &recv);
		_exit(failures != 0);
	}
	MUST(waitpid(child, &status, 0) == child);
	EQUAL(status, 0);
	EQUAL(ibv_destroy_srq(srq), 0);
	unpair(&a, &b);
}

int main(void)
{
	ctx = open_loopback();
	receives();
	shared_receives();
	sends();
	in_child();
	return finish(ctx);
}
