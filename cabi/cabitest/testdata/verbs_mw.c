/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows and re-registration: ibv_bind_mw(3), ibv_rereg_mr(3). */
#include "loop.h"

static void type1(struct end *a, struct end *b)
{
	struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = b->mr, .addr = (uintptr_t)b->buf + 64, .length = 64,
						 /* LOCAL_WRITE is nothing that a window gives; programs set it. */
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
								    IBV_ACCESS_LOCAL_WRITE}};
	struct ibv_pd *other;
	struct ibv_mr *mr;
	uint32_t old;

	MUST(mw);
	CHECK(mw->pd == b->pd && mw->context == b->ctx);
	EQUAL(mw->type, IBV_MW_TYPE_1);
	old = mw->rkey;
	EQUAL(ibv_bind_mw(b->qp, mw, &bind), 0);
	WANT_WC(b->cq, 1, IBV_WC_SUCCESS);
	CHECK(mw->rkey != old);
	memset(a->buf, 'm', 64);
	EQUAL(post_rdma(a, IBV_WR_RDMA_WRITE, 2, 64, (uintptr_t)b->buf + 64, mw->rkey), 0);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
	CHECK(b->buf[63] == 0 && b->buf[64] == 'm' && b->buf[127] == 'm' && b->buf[128] == 0);
	EQUAL(ibv_dereg_mr(b->mr), EBUSY); /* a window is bound to it */

	/* From another domain: the inline function refuses. */
	MUST(other = ibv_alloc_pd(b->ctx));
	MUST(mr = ibv_reg_mr(other, b->buf, 100, ALL_ACCESS));
	bind.bind_info.mr = mr;
	EQUAL(ibv_bind_mw(b->qp, mw, &bind), EPERM);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(other), 0);

	/* Length 0 takes the rights back. */
	bind = (struct ibv_mw_bind){.wr_id = 3, .send_flags = IBV_SEND_SIGNALED};
	EQUAL(ibv_bind_mw(b->qp, mw, &bind), 0);
	WANT_WC(b->cq, 3, IBV_WC_SUCCESS);
	EQUAL(ibv_dealloc_mw(mw), 0);
	REFUSED(ibv_alloc_mw(b->pd, (enum ibv_mw_type)7), EINVAL);
}

static void type2(struct end *a, struct end *b)
{
	struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	MUST(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = b->mr, .addr = (uintptr_t)b->buf, .length = 32,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ |
									    IBV_ACCESS_REMOTE_WRITE};
	EQUAL(ibv_post_send(b->qp, &wr, &bad), 0);
	MUST(wait_wc(b->cq, &wc) == 1);
	EQUAL(wc.status, IBV_WC_SUCCESS);
	EQUAL(wc.opcode, IBV_WC_BIND_MW);
	EQUAL(post_rdma(a, IBV_WR_RDMA_WRITE, 5, 32, (uintptr_t)b->buf, wr.bind_mw.rkey), 0);
	WANT_WC(a->cq, 5, IBV_WC_SUCCESS);

	/* The peer's SEND with invalidate ends it. */
	struct ibv_send_wr inv = {.wr_id = 6, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = wr.bind_mw.rkey};

	EQUAL(post_recv(b, 7, 0, 10), 0);
	EQUAL(ibv_post_send(a->qp, &inv, &bad), 0);
	MUST(wait_wc(b->cq, &wc) == 1);
	EQUAL(wc.wr_id, 7);
	EQUAL(wc.wc_flags, IBV_WC_WITH_INV);
	EQUAL(wc.invalidated_rkey, wr.bind_mw.rkey);
	WANT_WC(a->cq, 6, IBV_WC_SUCCESS);
	EQUAL(post_rdma(a, IBV_WR_RDMA_WRITE, 8, 32, (uintptr_t)b->buf, wr.bind_mw.rkey), 0);
	WANT_WC(a->cq, 8, IBV_WC_REM_ACCESS_ERR);
	EQUAL(ibv_dealloc_mw(mw), 0);
}

static void rereg(struct end *e)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buf, 100, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ibv_alloc_pd(e->ctx);

	MUST(mr && pd);
	EQUAL(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EINVAL);
	EQUAL(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 100, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buf, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, IBV_ACCESS_REMOTE_READ), IBV_REREG_MR_ERR_INPUT);
	/* Remote write needs local write; the old region stays. */
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), IBV_REREG_MR_ERR_INPUT);
	EQUAL(mr->length, 100);
	CHECK(mr->pd == e->pd);

	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buf + 4096, 200, 0), 0);
	CHECK(mr->addr == e->buf + 4096 && mr->length == 200);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, pd, NULL, 0, ALL_ACCESS), 0);
	CHECK(mr->pd == pd);
	EQUAL(ibv_dealloc_pd(pd), EBUSY); /* it has the region now */
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

/* The rights of a peer on a re-registered region. */
static void rereg_traffic(struct ibv_context *ctx)
{
	struct ibv_mr *mr;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_mr(b.pd, b.buf, 100, ALL_ACCESS));
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.buf + 4096, 100, 0), 0);
	memset(a.buf, 't', 100);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 100, (uintptr_t)b.buf + 4096, mr->rkey), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(b.buf[4096] == 't' && b.buf[4195] == 't' && !b.buf[0]);
	uint32_t key = mr->rkey;

	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	EQUAL(mr->rkey, key); /* peers need not be told */
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 100, (uintptr_t)b.buf + 4096, mr->rkey), 0);
	WANT_WC(a.cq, 2, IBV_WC_REM_ACCESS_ERR);
	EQUAL(ibv_dereg_mr(mr), 0);
	unpair(&a, &b);
}

/* Addresses that are not the program's own: ibv_reg_mr_iova(3), IBV_ACCESS_ZERO_BASED. */
static void iova(struct ibv_context *ctx)
{
	struct ibv_mr *mr, *zero;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_mr_iova(b.pd, b.buf, 100, 0x7000, ALL_ACCESS));
	CHECK(mr->addr == b.buf && mr->length == 100);
	MUST(zero = ibv_reg_mr(b.pd, b.buf + 200, 100, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	a.buf[0] = 'i';
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 1, 0x7005, mr->rkey), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	EQUAL(b.buf[5], 'i');
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 1, 7, zero->rkey), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	EQUAL(b.buf[207], 'i');
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dereg_mr(zero), 0);
	unpair(&a, &b);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_qp_attr attr = {.qp_access_flags = ALL_ACCESS};
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_modify_qp(b.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	type1(&a, &b);
	type2(&a, &b);
	rereg(&a);
	unpair(&a, &b);
	rereg_traffic(ctx);
	iova(ctx);
	return finish(ctx);
}
