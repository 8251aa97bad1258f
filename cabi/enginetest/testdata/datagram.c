/* SPDX-License-Identifier: BSD-2-Clause */
/* UD with address handles, an SRQ and a multicast group's refusals. */
#include "harness.h"

static char memory[8192];

int main(int argc, char **argv)
{
	vb_handle ctx, pd;
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *c = new_cq(ctx, 16, 0, 1), *cr = new_cq(ctx, 16, 0, 2);
	struct mr m = new_mr(pd, memory, sizeof memory);

	struct vb_srq_init si = {.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 5}, .pd = pd, .cookie = 5};
	struct recvs *recvs;
	vb_handle srq;
	uint32_t num;
	int tell;
	si.recv = new_recvs(&recvs, 8, 2);
	CALL(0, e->srq_create(&si, &srq, &num));
	struct ibv_srq_attr sa;
	memset(&sa, 0xff, sizeof sa);
	CALL(0, e->srq_query(srq, &sa));
	CHECK(sa.max_wr == 8 && sa.max_sge == 2 && sa.srq_limit == 0);
	struct ibv_sge s = {(uintptr_t)memory + 4096, 1024, m.lkey};
	struct ibv_recv_wr r1 = {.wr_id = 1, .sg_list = &s, .num_sge = 1};
	CALL(0, push_recv(recvs, &r1, &tell));
	CHECK(!tell);

	struct qp a = new_qp(pd, IBV_QPT_UD, c, c, 0, 3), b = new_qp(pd, IBV_QPT_UD, cr, cr, srq, 4);
	struct qp both[2] = {a, b};
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
		CALL(0, e->qp_modify(both[i].handle, &at, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY));
		at.qp_state = IBV_QPS_RTR;
		CALL(0, e->qp_modify(both[i].handle, &at, IBV_QP_STATE));
		at.qp_state = IBV_QPS_RTS;
		CALL(0, e->qp_modify(both[i].handle, &at, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	struct ibv_ah_attr aa = {.is_global = 1, .port_num = 1, .grh = {.dgid = local_gid(), .sgid_index = gid_index, .hop_limit = 64}};
	struct vb_ah ah;
	memset(&ah, 0, sizeof ah);
	CALL(0, e->ah_create(pd, &aa, &ah.handle));
	aa.is_global = 0;
	vb_handle none;
	CALL(EINVAL, e->ah_create(pd, &aa, &none));

	strcpy(memory, "hello");
	s = (struct ibv_sge){(uintptr_t)memory, 6, m.lkey};
	struct ibv_send_wr w = {.wr_id = 9, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
				.imm_data = htonl(5), .wr.ud = {.ah = &ah.ah, .remote_qpn = b.num, .remote_qkey = 0x1234}}, *bad;
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(c, 9, 0, OP_SEND);
	struct vb_wc wc = WANT_WC(cr, 1, 0, OP_RECV);
	CHECK(wc.byte_len == 46 && wc.flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.imm_data == 5 && wc.src_qp == a.num);
	CHECK(!strcmp(memory + 4096 + 40, "hello"));

	w.wr.ud.ah = NULL;
	CALL(EINVAL, e->qp_post_send(a.handle, &w, &bad));
	CALL(0, e->ah_destroy(ah.handle));
	CALL(EINVAL, e->ah_destroy(ah.handle));
	w.wr.ud.ah = &ah.ah; /* stale */
	CALL(EINVAL, e->qp_post_send(a.handle, &w, &bad));
	union ibv_gid unicast = local_gid();
	CALL(EINVAL, e->qp_attach_mcast(b.handle, &unicast));
	CALL(EINVAL, e->qp_detach_mcast(b.handle, &unicast));

	CALL(EBUSY, e->srq_destroy(srq));
	CALL(0, e->qp_destroy(b.handle));
	CALL(0, e->srq_destroy(srq));
	CALL(0, e->ctx_close(ctx)); /* takes the rest with it */
	CALL(EINVAL, e->qp_post_send(a.handle, &w, &bad));
	printf("ok\n");
	return 0;
}
