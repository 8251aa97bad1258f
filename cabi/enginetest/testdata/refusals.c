/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles that name nothing, and arguments that the man pages refuse. */
#include "harness.h"

static char memory[4096];

int main(int argc, char **argv)
{
	vb_handle ctx, pd, h;
	uint32_t lkey, rkey;
	start(argc, argv);
	CALL(ENODEV, e->ctx_open("no_such_device", -1, &ctx));
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	uint32_t pkey = 1, qkey = 1;
	CALL(0, e->ctx_violations(ctx, &pkey, &qkey));
	CHECK(pkey == 0 && qkey == 0);
	CALL(0, e->pd_alloc(ctx, &pd));

	/* A handle of another kind, of nothing, of a destroyed object. */
	CALL(EINVAL, e->pd_alloc(pd, &h));
	CALL(EINVAL, e->pd_free(ctx));
	vb_handle gone;
	CALL(0, e->pd_alloc(ctx, &gone));
	CALL(0, e->pd_free(gone));
	CALL(EINVAL, e->pd_free(gone));
	CALL(0, e->pd_alloc(ctx, &h)); /* takes its place */
	CHECK((uint32_t)h == (uint32_t)gone && h != gone);
	CALL(EINVAL, e->pd_free(gone));
	vb_handle odd[] = {0, 1, UINT64_MAX, 0xffffffff, gone, pd ^ (1ull << 40), 7ull << 56 | 1};
	struct ibv_send_wr sw = {0}, *badsw;
	struct ibv_recv_wr rw = {0};
	struct ibv_qp_attr qa;
	struct ibv_srq_attr sa;
	struct vb_mw mw = {0};
	struct ibv_mw_bind bind = {0};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		vb_handle o = odd[i];
		e->progress(o, 1);
		e->wake(o);
		CALL(EINVAL, e->ctx_close(o));
		CALL(EINVAL, e->ctx_violations(o, &pkey, &qkey));
		CALL(EINVAL, e->pd_free(o));
		CALL(EINVAL, e->xrcd_close(o));
		CALL(EINVAL, e->mr_reg(o, memory, 1, 0, 0, &h, &lkey, &rkey));
		CALL(EINVAL, e->mr_rereg(o, 1, pd, memory, 1, 0, &lkey, &rkey));
		CALL(EINVAL, e->mr_dereg(o));
		CALL(EINVAL, e->mw_alloc(o, IBV_MW_TYPE_1, &h, &rkey));
		CALL(EINVAL, e->mw_free(o));
		CALL(EINVAL, e->cq_resize(o, 1, NULL, 0));
		CALL(EINVAL, e->cq_moderate(o, 4, 10));
		CALL(EINVAL, e->cq_arm(o, 0, 0));
		CALL(EINVAL, e->cq_destroy(o));
		CALL(EINVAL, e->srq_modify(o, &sa, 0, NULL, 0));
		CALL(EINVAL, e->srq_query(o, &sa));
		CALL(EINVAL, e->srq_destroy(o));
		CALL(EINVAL, e->qp_modify(o, &qa, 0));
		CALL(EINVAL, e->qp_query(o, &qa, NULL));
		badsw = NULL;
		CALL(EINVAL, e->qp_post_send(o, &sw, &badsw));
		CHECK(badsw == &sw);
		CALL(EINVAL, e->qp_recvs_posted(o));
		CALL(EINVAL, e->qp_bind_mw(o, &mw, &bind, &rkey));
		CALL(EINVAL, e->qp_destroy(o));
		CALL(EINVAL, e->ah_create(o, &(struct ibv_ah_attr){0}, &h));
		CALL(EINVAL, e->ah_destroy(o));
		CALL(EINVAL, e->srq_create(&(struct vb_srq_init){.attr = {.max_wr = 1}, .pd = o}, &h, &rkey));
		CALL(EINVAL, e->qp_create(&(struct vb_qp_init){.type = IBV_QPT_RC, .pd = o}, &h, &rkey));
		CALL(EINVAL, e->qp_create(&(struct vb_qp_init){.type = IBV_QPT_RC, .pd = pd, .send_cq = o, .recv_cq = o}, &h, &rkey));
	}

	/* ibv_reg_mr(3). */
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	long page = sysconf(_SC_PAGESIZE);
	char *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map != MAP_FAILED);
	munmap(map + page, page);
	CALL(EINVAL, e->mr_reg(pd, map, 0, 0, all, &h, &lkey, &rkey));
	CALL(EINVAL, e->mr_reg(pd, map, SIZE_MAX, (uintptr_t)map, all, &h, &lkey, &rkey));
	CALL(EINVAL, e->mr_reg(pd, map, 1, 0, IBV_ACCESS_REMOTE_WRITE, &h, &lkey, &rkey));
	CALL(EINVAL, e->mr_reg(pd, map, page, UINT64_MAX, all, &h, &lkey, &rkey));
	CALL(EINVAL, e->mr_reg(pd, NULL, SIZE_MAX, 1, IBV_ACCESS_ON_DEMAND, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, NULL, page, 0, IBV_ACCESS_ON_DEMAND, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, (void *)8, 8, 8, IBV_ACCESS_ON_DEMAND, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, (void *)0x10000, (size_t)1 << 47, 0x10000, IBV_ACCESS_ON_DEMAND, &h, &lkey, &rkey)); /* the engine's own */
	CALL(EFAULT, e->mr_reg(pd, NULL, 1, 0, all, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, map + page, 1, 0, all, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, map + page - 1, 2, 0, all, &h, &lkey, &rkey));
	CALL(EFAULT, e->mr_reg(pd, map, 4 * page, 0, all, &h, &lkey, &rkey)); /* a hole */
	CALL(0, e->mr_reg(pd, map + 2 * page, 2 * page, 0, all, &h, &lkey, &rkey));
	CALL(EINVAL, e->mr_rereg(h, 0, 0, NULL, 0, 0, &lkey, &rkey));
	CALL(EINVAL, e->mr_rereg(h, 8, 0, NULL, 0, 0, &lkey, &rkey));
	CALL(EFAULT, e->mr_rereg(h, IBV_REREG_MR_CHANGE_TRANSLATION, 0, map, 4 * page, 0, &lkey, &rkey));
	CALL(0, e->mr_rereg(h, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, 0, map, page, IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey));
	CALL(0, e->mr_dereg(h));
	CALL(EINVAL, e->mr_dereg(h));

	/* Sizes. */
	struct vb_cq_ring ring = {.mask = 3, .slots = calloc(4, sizeof(struct vb_wc))};
	CALL(EINVAL, e->cq_create(ctx, 0, &ring, 0, 0, 1, &h));
	CALL(EINVAL, e->cq_create(ctx, -1, &ring, 0, 0, 1, &h));
	CALL(EINVAL, e->cq_create(ctx, 5, &ring, 0, 0, 1, &h));
	ring.mask = UINT64_MAX;
	CALL(EINVAL, e->cq_create(ctx, 4, &ring, 0, 0, 1, &h));
	ring.mask = 2;
	CALL(EINVAL, e->cq_create(ctx, 2, &ring, 0, 0, 1, &h));
	CALL(EINVAL, e->srq_create(&(struct vb_srq_init){.attr = {.max_wr = 1 << 30}, .pd = pd}, &h, &rkey));
	CALL(EINVAL, e->mw_alloc(pd, 3, &h, &rkey));
	CALL(EINVAL, e->mw_alloc(pd, 0x101, &h, &rkey));

	struct cq *c = new_cq(ctx, 16, 0, 1);
	struct vb_qp_init init = {.type = IBV_QPT_RC, .pd = pd, .send_cq = c->handle, .recv_cq = c->handle, .cap = {.max_inline_data = 1 << 30}};
	CALL(EINVAL, e->qp_create(&init, &h, &rkey));
	init.cap.max_inline_data = 0;
	init.cap.max_send_wr = UINT32_MAX;
	CALL(EINVAL, e->qp_create(&init, &h, &rkey));
	init.cap.max_send_wr = 1;
	init.type = IBV_QPT_DRIVER;
	CALL(EOPNOTSUPP, e->qp_create(&init, &h, &rkey));
	init.type = 0x102;
	CALL(EOPNOTSUPP, e->qp_create(&init, &h, &rkey));

	/* Posting: the one refused is named, those before it are under way. */
	struct qp q = new_qp(pd, IBV_QPT_RC, c, c, 0, 9), peer = new_qp(pd, IBV_QPT_RC, c, c, 0, 10);
	struct mr m = new_mr(pd, memory, sizeof memory);
	struct ibv_sge s[5] = {{(uintptr_t)memory, 8, m.lkey}};
	CALL(EINVAL, e->qp_post_send(q.handle, &sw, &badsw)); /* in RESET */
	CALL(EINVAL, qp_push_recv(q, &rw));
	qa = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	CALL(EINVAL, e->qp_modify(q.handle, &qa, IBV_QP_STATE));
	qa.qp_state = 300;
	CALL(EINVAL, e->qp_modify(q.handle, &qa, IBV_QP_STATE));
	qa.qp_state = IBV_QPS_ERR;
	CALL(EINVAL, e->qp_modify(q.handle, &qa, IBV_QP_STATE | 1 << 30));
	connect_qp(q, peer.num);
	connect_qp(peer, q.num);
	struct ibv_send_wr bads[] = {
		{.opcode = IBV_WR_SEND, .sg_list = s, .num_sge = 5},
		{.opcode = IBV_WR_SEND, .sg_list = s, .num_sge = -1},
		{.opcode = IBV_WR_SEND, .sg_list = NULL, .num_sge = 1},
		{.opcode = IBV_WR_SEND, .sg_list = s, .num_sge = INT32_MAX},
		{.opcode = IBV_WR_TSO},
		{.opcode = 64},
		{.opcode = 0x102},
		{.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM},
		{.opcode = IBV_WR_SEND, .send_flags = 1 << 20},
		{.opcode = IBV_WR_RDMA_READ, .sg_list = s, .num_sge = 1, .send_flags = IBV_SEND_INLINE},
		{.opcode = IBV_WR_BIND_MW},
		{.opcode = IBV_WR_BIND_MW, .bind_mw.mw = &mw.mw},
	};
	struct ibv_sge big = {(uintptr_t)memory, 4000, 0};
	struct ibv_send_wr inl = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = &big, .num_sge = 1};
	CALL(EINVAL, e->qp_post_send(q.handle, &inl, &badsw));
	for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
		post_recv(peer, 100 + i, memory + 2048, 64, m.lkey);
		struct ibv_send_wr good = {.wr_id = i, .next = &bads[i], .opcode = IBV_WR_SEND, .sg_list = s, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
		badsw = NULL;
		if (e->qp_post_send(q.handle, &good, &badsw) != EINVAL || badsw != &bads[i]) {
			printf("FAIL work request %zu was not refused\n", i);
			return 1;
		}
		for (int k = 0; k < 2; k++) {
			struct vb_wc wc = want_wc(c, __LINE__);
			CHECK(wc.status == 0 && (wc.wr_id == i || wc.wr_id == 100 + i));
		}
	}
	CALL(0, e->qp_post_send(q.handle, NULL, &badsw)); /* an empty list */

	/* Memory that the queue refuses. */
	struct recvs *r;
	struct vb_recv_memory memories[] = {new_recvs(&r, 8, 2), new_recvs(&r, 4, 1), new_recvs(&r, 8, 1), new_recvs(&r, 8, 1)};
	init = (struct vb_qp_init){.type = IBV_QPT_RC, .pd = pd, .send_cq = c->handle, .recv_cq = c->handle, .cap = {.max_recv_wr = 8, .max_recv_sge = 1}};
	memories[0].mask = 6; /* no power of two */
	memories[2].mask = UINT64_MAX;
	memories[3].slots = NULL;
	for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
		init.recv = memories[i];
		CALL(EINVAL, e->qp_create(&init, &h, &rkey));
		CALL(EINVAL, e->srq_create(&(struct vb_srq_init){.attr = {.max_wr = 8, .max_sge = 1}, .pd = pd, .recv = memories[i]}, &h, &rkey));
	}

	/* In the error state, and closed with its context. */
	qa.qp_state = IBV_QPS_ERR;
	CALL(0, e->qp_modify(peer.handle, &qa, IBV_QP_STATE));
	post_recv(peer, 300, NULL, 0, 0);
	WANT_WC(c, 300, IBV_WC_WR_FLUSH_ERR, OP_RECV);
	CALL(0, e->ctx_close(ctx));
	CALL(EINVAL, e->ctx_close(ctx));
	CALL(EINVAL, qp_push_recv(peer, &rw));
	CALL(EINVAL, e->qp_post_send(q.handle, &sw, &badsw)); /* closed with its context */
	printf("ok\n");
	return 0;
}
