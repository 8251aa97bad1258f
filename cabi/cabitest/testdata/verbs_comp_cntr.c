/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters of rdma-core 65: ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3). */
#include "loop.h"
#include "comp_cntr.h"

static struct ibv_context *ctx;

static void capabilities(void)
{
	struct {
		struct cntr_caps caps;
		uint64_t later; /* of a newer program */
	} longer;
	struct cntr_caps caps;

	memset(&longer, 0xff, sizeof(longer));
	EQUAL(_ibv_query_comp_cntr_caps(ctx, &longer.caps, sizeof(longer)), 0);
	EQUAL(_ibv_query_comp_cntr_caps(ctx, &caps, sizeof(caps)), 0);
	CHECK(!memcmp(&caps, &longer, sizeof(caps)) && !longer.later);
	CHECK(caps.max_value == UINT64_MAX && caps.max_counters > 0);
	EQUAL(caps.supported_qp_attach_ops, CNTR_SEND | CNTR_RECV | CNTR_READ | CNTR_WRITE);
	EQUAL(_ibv_query_comp_cntr_caps(ctx, NULL, sizeof(caps)), EINVAL);
}

static struct cntr *attached(struct ibv_qp *qp, uint32_t type, uint32_t ops)
{
	struct cntr_attach_attr attr = {.op_mask = ops};
	struct cntr_init_attr init = {.type = type};
	struct cntr *cntr;

	MUST(cntr = ibv_create_comp_cntr(ctx, &init));
	CHECK(cntr->context == ctx);
	EQUAL(ibv_qp_attach_comp_cntr(qp, cntr, &attr), 0);
	return cntr;
}

static uint64_t done(struct cntr *cntr)
{
	uint64_t value;

	EQUAL(ibv_read_comp_cntr(cntr, &value), 0);
	return value;
}

static uint64_t errors(struct cntr *cntr)
{
	uint64_t value;

	EQUAL(ibv_read_err_comp_cntr(cntr, &value), 0);
	return value;
}

static void counting(void)
{
	struct cntr *sends, *writes, *received;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	sends = attached(a.qp, CNTR_WRS, CNTR_SEND);
	writes = attached(a.qp, CNTR_BYTES, CNTR_WRITE);
	received = attached(b.qp, CNTR_WRS, CNTR_RECV);
	connect_qps(a.qp, b.qp);
	EQUAL(post_recv(&b, 1, 0, 100), 0);
	EQUAL(post_send(&a, 2, 0, 100), 0);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 5000, (uintptr_t)b.buf, b.mr->rkey), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 4, 8, (uintptr_t)b.buf, b.mr->rkey + 1), 0);
	WANT_WC(a.cq, 4, IBV_WC_REM_ACCESS_ERR);
	EQUAL(done(sends), 1);
	EQUAL(errors(sends), 0);
	EQUAL(done(writes), 5000);
	EQUAL(errors(writes), 1);
	EQUAL(done(received), 1);
	EQUAL(ibv_set_comp_cntr(sends, 10), 0);
	EQUAL(ibv_inc_comp_cntr(sends, 5), 0);
	EQUAL(ibv_set_err_comp_cntr(sends, UINT64_MAX), 0);
	EQUAL(ibv_inc_err_comp_cntr(sends, 3), 0); /* it wraps */
	EQUAL(done(sends), 15);
	EQUAL(errors(sends), 2);
	EQUAL(ibv_destroy_comp_cntr(sends), EBUSY);
	unpair(&a, &b);
	EQUAL(ibv_destroy_comp_cntr(sends), 0);
	EQUAL(ibv_destroy_comp_cntr(writes), 0);
	EQUAL(ibv_destroy_comp_cntr(received), 0);
}

static void refusals(void)
{
	struct ibv_context *other = open_loopback();
	struct cntr_attach_attr attr = {.op_mask = CNTR_SEND};
	struct cntr_init_attr init = {.flags = 1};
	struct cntr *cntr, *foreign;
	struct end e;

	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_UD);
	REFUSED(ibv_create_comp_cntr(ctx, &init), EOPNOTSUPP);
	init = (struct cntr_init_attr){.type = 2};
	REFUSED(ibv_create_comp_cntr(ctx, &init), EOPNOTSUPP);
	REFUSED(ibv_create_comp_cntr(ctx, NULL), EINVAL);
	init.type = CNTR_WRS;
	MUST(foreign = ibv_create_comp_cntr(other, &init));
	EQUAL(ibv_qp_attach_comp_cntr(e.qp, foreign, &attr), EINVAL);
	cntr = attached(e.qp, CNTR_WRS, CNTR_SEND);
	EQUAL(ibv_qp_attach_comp_cntr(e.qp, cntr, &attr), EBUSY);
	attr.op_mask = CNTR_REMOTE_READ;
	EQUAL(ibv_qp_attach_comp_cntr(e.qp, cntr, &attr), EOPNOTSUPP);
	attr = (struct cntr_attach_attr){.op_mask = CNTR_RECV, .comp_mask = 1};
	EQUAL(ibv_qp_attach_comp_cntr(e.qp, cntr, &attr), EINVAL);
	to_init(e.qp);
	attr.comp_mask = 0;
	EQUAL(ibv_qp_attach_comp_cntr(e.qp, cntr, &attr), 0);
	EQUAL(ibv_read_comp_cntr(cntr, NULL), EINVAL);
	end_close(&e, 1);
	EQUAL(ibv_destroy_comp_cntr(cntr), 0);
	EQUAL(ibv_destroy_comp_cntr(foreign), 0);
	EQUAL(ibv_destroy_comp_cntr(NULL), EINVAL);
	EQUAL(ibv_close_device(other), 0);
}

int main(void)
{
	ctx = open_loopback();
	capabilities();
	counting();
	refusals();
	return finish(ctx);
}
