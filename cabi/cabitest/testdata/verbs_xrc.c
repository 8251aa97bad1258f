/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: ibv_open_xrcd(3), ibv_create_srq_ex(3), ibv_open_qp(3). A message names its SRQ. */
#include "loop.h"

#include <fcntl.h>

static struct ibv_srq *shared(struct end *e, struct ibv_xrcd *xrcd, uint32_t *number)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 10, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = e->pd,
		.xrcd = xrcd,
		.cq = e->cq,
	};
	struct ibv_srq *srq;

	MUST(srq = ibv_create_srq_ex(e->ctx, &attr));
	EQUAL(ibv_get_srq_num(srq, number), 0);
	return srq;
}

static void refusals(struct end *e)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 10, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .pd = e->pd};

	attr.srq_type = IBV_SRQT_XRC; /* without a domain and a completion queue */
	REFUSED(ibv_create_srq_ex(e->ctx, &attr), EINVAL);
	attr.srq_type = (enum ibv_srq_type)9;
	REFUSED(ibv_create_srq_ex(e->ctx, &attr), EINVAL);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_xrcd_init_attr xattr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					   .oflags = O_CREAT};
	struct ibv_qp_init_attr_ex init = {0};
	struct ibv_qp_open_attr open = {0};
	struct ibv_recv_wr recv = {0}, *bad_recv;
	struct ibv_send_wr send = {0}, *bad;
	struct ibv_qp *target, *opened;
	struct ibv_qp_init_attr back;
	struct ibv_qp_attr attr;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[2];
	uint32_t number[2];
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	refusals(&b);
	MUST(xrcd = ibv_open_xrcd(ctx, &xattr));
	for (int i = 0; i < 2; i++)
		srq[i] = shared(&b, xrcd, &number[i]);
	CHECK(number[0] != number[1]);
	EQUAL(ibv_close_xrcd(xrcd), EBUSY);

	init.qp_type = IBV_QPT_XRC_RECV;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.xrcd = xrcd;
	MUST(target = ibv_create_qp_ex(ctx, &init));
	CHECK(!target->pd && !target->send_cq && !target->recv_cq && !target->srq);
	end_qp(&a, IBV_QPT_XRC_SEND);
	CHECK(a.qp->send_cq == a.cq && !a.qp->recv_cq);
	to_init(a.qp);
	to_init(target);
	to_rtr(a.qp, target->qp_num);
	to_rtr(target, a.qp->qp_num);
	to_rts(a.qp);

	for (int i = 0; i < 2; i++) {
		sge = (struct ibv_sge){.addr = (uintptr_t)b.buf + 100 * i, .length = 100, .lkey = b.mr->lkey};
		recv = (struct ibv_recv_wr){.wr_id = 10 + i, .sg_list = &sge, .num_sge = 1};
		EQUAL(ibv_post_srq_recv(srq[i], &recv, &bad_recv), 0);
	}
	strcpy(a.buf, "second");
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 7, .lkey = a.mr->lkey};
	send = (struct ibv_send_wr){.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED};
	send.qp_type.xrc.remote_srqn = number[1];
	EQUAL(ibv_post_send(a.qp, &send, &bad), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	MUST(wait_wc(b.cq, &wc) == 1);
	EQUAL(wc.wr_id, 11);
	EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 100, "second"));
	send.qp_type.xrc.remote_srqn = number[0];
	send.wr_id = 2;
	EQUAL(ibv_post_send(a.qp, &send, &bad), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 10, IBV_WC_SUCCESS);

	/* Another user of the same queue pair: it is one object. */
	open = (struct ibv_qp_open_attr){.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
						      IBV_QP_OPEN_ATTR_CONTEXT,
					 .qp_num = target->qp_num,
					 .xrcd = xrcd,
					 .qp_context = &b,
					 .qp_type = IBV_QPT_XRC_RECV};
	MUST(opened = ibv_open_qp(ctx, &open));
	EQUAL(opened->qp_num, target->qp_num);
	CHECK(opened->qp_context == &b);
	EQUAL(ibv_query_qp(opened, &attr, IBV_QP_STATE, &back), 0);
	EQUAL(attr.qp_state, IBV_QPS_RTR);
	EQUAL(opened->state, IBV_QPS_RTR);
	EQUAL(ibv_destroy_qp(target), 0);
	/* It lives on while it is open. */
	sge = (struct ibv_sge){.addr = (uintptr_t)b.buf, .length = 100, .lkey = b.mr->lkey};
	recv = (struct ibv_recv_wr){.wr_id = 12, .sg_list = &sge, .num_sge = 1};
	EQUAL(ibv_post_srq_recv(srq[0], &recv, &bad_recv), 0);
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 7, .lkey = a.mr->lkey};
	send.wr_id = 3;
	EQUAL(ibv_post_send(a.qp, &send, &bad), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 12, IBV_WC_SUCCESS);
	EQUAL(ibv_destroy_qp(opened), 0);

	EQUAL(ibv_destroy_srq(srq[0]), 0);
	EQUAL(ibv_destroy_srq(srq[1]), 0);
	EQUAL(ibv_close_xrcd(xrcd), 0);
	unpair(&a, &b);
	return finish(ctx);
}
