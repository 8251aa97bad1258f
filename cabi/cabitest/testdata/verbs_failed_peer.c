/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends to a peer that is gone, and sends in a queue pair that the application takes to the error
 * state, as UCX does. It checks which completions come and which posts are still allowed. The state
 * in the structure is that of the last ibv_modify_qp(3), until ibv_query_qp(3) is asked for it.
 */
#include "loop.h"

#define SENDS 32
#define SIGNALED_EVERY 8

static void post_many(struct end *e, int first, int count)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 8, .lkey = e->mr->lkey};

	for (int i = first; i < first + count; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

		wr.send_flags = i % SIGNALED_EVERY == SIGNALED_EVERY - 1 ? IBV_SEND_SIGNALED : 0;
		EQUAL(ibv_post_send(e->qp, &wr, &bad), 0);
	}
}

/* All that was posted completes, signalled or not. */
static void want_flushed(struct end *e, int first, int count)
{
	for (int i = first; i < first + count; i++)
		WANT_WC(e->cq, i, IBV_WC_WR_FLUSH_ERR);
}

static enum ibv_qp_state asked(struct ibv_qp *qp, int mask)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	EQUAL(ibv_query_qp(qp, &attr, mask, &init), 0);
	return qp->state;
}

/* To RTS, where a peer is given up soon. */
static void to_impatient(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 5, .retry_cnt = 4, .rnr_retry = 7, .max_rd_atomic = 1};

	EQUAL(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	      0);
}

static void peer_gone(struct ibv_context *ctx)
{
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	to_init(a.qp);
	to_rtr(a.qp, b.qp->qp_num);
	to_impatient(a.qp);
	end_close(&b, 1);
	post_many(&a, 0, SENDS);
	WANT_WC(a.cq, 0, IBV_WC_RETRY_EXC_ERR);
	EQUAL(a.qp->state, IBV_QPS_RTS);
	EQUAL(asked(a.qp, IBV_QP_AV | IBV_QP_DEST_QPN), IBV_QPS_RTS);
	want_flushed(&a, 1, SENDS - 1);
	post_many(&a, SENDS, SENDS);
	want_flushed(&a, SENDS, SENDS);
	EQUAL(asked(a.qp, IBV_QP_STATE), IBV_QPS_ERR);
	end_close(&a, 1);
}

static void taken_to_error(struct ibv_context *ctx)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC); /* b has no receives */
	post_many(&a, 0, SENDS);
	EQUAL(ibv_modify_qp(a.qp, &error, IBV_QP_STATE), 0);
	EQUAL(a.qp->state, IBV_QPS_ERR);
	post_many(&a, SENDS, SENDS);
	want_flushed(&a, 0, 2 * SENDS);
	EQUAL(asked(a.qp, IBV_QP_AV), IBV_QPS_ERR);
	EQUAL(ibv_modify_qp(a.qp, &error, IBV_QP_STATE), 0);
	unpair(&a, &b);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	peer_gone(ctx);
	taken_to_error(ctx);
	return finish(ctx);
}
