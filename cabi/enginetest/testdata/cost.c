/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of a post without work, which is the cost of the crossing. */
#include "harness.h"

static char memory[4096];

int main(int argc, char **argv)
{
	vb_handle ctx, pd;
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *c = new_cq(ctx, 16384, 0, 1);
	struct mr m = new_mr(pd, memory, sizeof memory);
	struct vb_qp_init init = {.type = IBV_QPT_RC, .pd = pd, .send_cq = c->handle, .recv_cq = c->handle,
				  .cap = {.max_send_wr = 16384, .max_recv_wr = 16384, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64}};
	struct qp q;
	CALL(0, e->qp_create(&init, &q.handle, &q.num));
	connect_qp(q, q.num);
	struct ibv_sge s = {(uintptr_t)memory, 64, m.lkey};
	double empty = 1;
	for (int round = 0; round < 8; round++) {
		struct ibv_send_wr *bad;
		double t = now();
		for (int i = 0; i < 2000; i++)
			e->qp_post_send(q.handle, NULL, &bad);
		t = (now() - t) / 2000;
		empty = t < empty ? t : empty;
	}
	printf("post_send of nothing %.0f ns\n", empty * 1e9);
	CHECK(empty < 5e-6);

	/* One WRITE to itself; then all is closed, or with CLOSE=no nothing. */
	struct ibv_send_wr w = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = {.remote_addr = (uintptr_t)memory + 64, .rkey = m.rkey}}, *bad;
	CALL(0, e->qp_post_send(q.handle, &w, &bad));
	WANT_WC(c, 1, 0, OP_WRITE);
	if (!getenv("CLOSE"))
		CALL(0, e->ctx_close(ctx));
	printf("ok\n");
	return 0;
}
