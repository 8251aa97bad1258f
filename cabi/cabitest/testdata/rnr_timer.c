/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * min_rnr_timer of a queue pair in RTS, from 1 to the argument: ibv_modify_qp(3). A SEND to it has
 * no receive and no second try, so that the capture has the RNR NAK of after the change.
 */
#include "loop.h"

int main(int argc, char **argv)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_qp_attr attr = {.min_rnr_timer = (uint8_t)atoi(argv[argc - 1])}, got;
	struct ibv_qp_init_attr init;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_query_qp(b.qp, &got, IBV_QP_MIN_RNR_TIMER, &init), 0);
	EQUAL(got.min_rnr_timer, 1);
	EQUAL(ibv_modify_qp(b.qp, &(struct ibv_qp_attr){.min_rnr_timer = 32}, IBV_QP_MIN_RNR_TIMER), EINVAL);
	EQUAL(ibv_modify_qp(b.qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	EQUAL(ibv_query_qp(b.qp, &got, IBV_QP_MIN_RNR_TIMER | IBV_QP_STATE, &init), 0);
	EQUAL(got.min_rnr_timer, attr.min_rnr_timer);
	EQUAL(got.qp_state, IBV_QPS_RTS);
	/* rnr_retry is of a change from SQD only: the requester stops. */
	EQUAL(ibv_modify_qp(a.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, IBV_QP_STATE), 0);
	EQUAL(ibv_modify_qp(a.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, IBV_QP_STATE | IBV_QP_RNR_RETRY), 0);
	EQUAL(ibv_modify_qp(a.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE), 0);
	EQUAL(post_send(&a, 1, 0, 8), 0);
	WANT_WC(a.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	unpair(&a, &b);
	return finish(ctx);
}
