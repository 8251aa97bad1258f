/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: a domain of a file, its SRQ, a queue pair opened twice, a SEND to the SRQ's number. */
#include "harness.h"

static char memory[4096];

static void to_rts(struct qp q, uint32_t peer, int sends)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	CALL(0, e->qp_modify(q.handle, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = local_gid(), .sgid_index = gid_index, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	CALL(0, e->qp_modify(q.handle, &a, sends ? mask : mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	CALL(0, e->qp_modify(q.handle, &a, sends ? mask | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : mask));
}

int main(int argc, char **argv)
{
	vb_handle ctx, pd, xrcd, again, srq, none;
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	char name[] = "/tmp/xrcXXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && !unlink(name));
	CALL(EAGAIN, e->xrcd_open(ctx, fd, 0, &none));
	CALL(EBADF, e->xrcd_open(ctx, 12345, O_CREAT, &none));
	CALL(0, e->xrcd_open(ctx, fd, O_CREAT, &xrcd));
	CALL(EINVAL, e->xrcd_open(ctx, fd, O_CREAT | O_EXCL, &none));
	CALL(0, e->xrcd_open(ctx, fd, 0, &again));
	CHECK(fcntl(fd, F_GETFD) >= 0); /* still the application's */

	struct cq *cs = new_cq(ctx, 16, 0, 1), *cr = new_cq(ctx, 16, 0, 2);
	struct vb_srq_init si = {.attr = {.max_wr = 8, .max_sge = 1}, .pd = pd, .xrcd = xrcd, .cq = cr->handle, .cookie = 5};
	struct recvs *recvs;
	uint32_t num = 0;
	int tell;
	si.recv = new_recvs(&recvs, 8, 1);
	CALL(0, e->srq_create(&si, &srq, &num));
	CHECK(num != 0);
	struct vb_qp_init in = {.type = IBV_QPT_XRC_SEND, .pd = pd, .send_cq = cs->handle, .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct qp s, r, same;
	CALL(0, e->qp_create(&in, &s.handle, &s.num));
	in = (struct vb_qp_init){.type = IBV_QPT_XRC_RECV};
	CALL(EINVAL, e->qp_create(&in, &r.handle, &r.num));
	in.xrcd = xrcd;
	CALL(0, e->qp_create(&in, &r.handle, &r.num));
	CALL(ENOENT, e->qp_open(again, r.num + 1, 7, &none));
	CALL(0, e->qp_open(again, r.num, 7, &same.handle));
	to_rts(s, r.num, 1);
	to_rts(r, s.num, 0);

	struct mr m = new_mr(pd, memory, sizeof memory);
	struct ibv_sge g = {(uintptr_t)memory + 2048, 64, m.lkey};
	struct ibv_recv_wr rw = {.wr_id = 1, .sg_list = &g, .num_sge = 1};
	CALL(0, push_recv(recvs, &rw, &tell));
	strcpy(memory, "to the SRQ");
	struct ibv_sge gs = {(uintptr_t)memory, 11, m.lkey};
	struct ibv_send_wr w = {.wr_id = 2, .sg_list = &gs, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = num}, *bad;
	CALL(EINVAL, e->qp_post_send(r.handle, &w, &bad));
	CALL(0, e->qp_post_send(s.handle, &w, &bad));
	WANT_WC(cs, 2, 0, OP_SEND);
	WANT_WC(cr, 1, 0, OP_RECV);
	CHECK(!strcmp(memory + 2048, "to the SRQ"));

	CALL(0, e->qp_destroy(s.handle));
	CALL(EBUSY, e->xrcd_close(xrcd));
	CALL(0, e->qp_destroy(r.handle));
	CALL(0, e->qp_destroy(same.handle));
	CALL(0, e->srq_destroy(srq));
	CALL(0, e->xrcd_close(xrcd));
	CALL(0, e->xrcd_close(again));
	CALL(EINVAL, e->xrcd_close(again));
	CALL(0, e->ctx_close(ctx));
	printf("ok\n");
	return 0;
}
