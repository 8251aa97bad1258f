/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_create_cq_ex(3): the iterator, the fields, the refusals. */
#include "loop.h"

#include <arpa/inet.h>

static int wait_start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	long long end = now_ms() + PATIENCE_MS;
	int err;

	do
		err = ibv_start_poll(cq, &attr);
	while (err == ENOENT && now_ms() < end);
	return err;
}

static void refusals(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 10, .wc_flags = IBV_WC_EX_WITH_CVLAN};

	REFUSED(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = 1 << 8;
	REFUSED(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	REFUSED(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = pd; /* not a parent domain */
	REFUSED(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr.comp_mask = 0;
	attr.cqe = 0;
	REFUSED(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr.cqe = 10;
	attr.comp_vector = (uint32_t)ctx->num_comp_vectors;
	REFUSED(ibv_create_cq_ex(ctx, &attr), EINVAL);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_cq_init_attr_ex attr = {.cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS, .cq_context = &attr};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq_ex *cq;
	struct ibv_wc wc;
	struct end a, b;

	MUST(cq = ibv_create_cq_ex(ctx, &attr));
	EQUAL(cq->cqe, 128); /* a power of two */
	CHECK(cq->cq_context == &attr);
	EQUAL(ibv_start_poll(cq, &poll_attr), ENOENT);
	poll_attr.comp_mask = 1;
	EQUAL(ibv_start_poll(cq, &poll_attr), EINVAL);

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, ibv_cq_ex_to_cq(cq));
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	refusals(ctx, a.pd);

	for (unsigned i = 0; i < 3; i++)
		EQUAL(post_recv(&b, 10 + i, 0, 100), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)a.buf, .length = 7 + i, .lkey = a.mr->lkey};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = htonl(100 + i)},
				   *bad;

		EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
	}
	for (unsigned got = 0; got < 3;) {
		int err = wait_start(cq);

		MUST(err == 0);
		do {
			EQUAL(cq->wr_id, 10 + got);
			EQUAL(cq->status, IBV_WC_SUCCESS);
			EQUAL(ibv_wc_read_opcode(cq), IBV_WC_RECV);
			EQUAL(ibv_wc_read_byte_len(cq), 7 + got);
			EQUAL(ibv_wc_read_imm_data(cq), htonl(100 + got));
			EQUAL(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
			EQUAL(ibv_wc_read_qp_num(cq), b.qp->qp_num);
			EQUAL(ibv_wc_read_vendor_err(cq), 0);
			EQUAL(ibv_wc_read_dlid_path_bits(cq), 0);
			EQUAL(ibv_wc_read_slid(cq), 0);
			got++;
			err = ibv_next_poll(cq);
		} while (!err);
		EQUAL(err, ENOENT);
		ibv_end_poll(cq);
	}

	/* The plain API works on it too. */
	EQUAL(post_recv(&b, 20, 0, 100), 0);
	EQUAL(post_send(&a, 21, 0, 1), 0);
	MUST(wait_wc(ibv_cq_ex_to_cq(cq), &wc) == 1);
	EQUAL(wc.wr_id, 20);
	WANT_WC(a.cq, 21, IBV_WC_SUCCESS);

	/* A flushed one has a status. */
	EQUAL(post_recv(&b, 22, 0, 100), 0);
	struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};

	EQUAL(ibv_modify_qp(b.qp, &to_err, IBV_QP_STATE), 0);
	MUST(wait_start(cq) == 0);
	EQUAL(cq->wr_id, 22);
	EQUAL(cq->status, IBV_WC_WR_FLUSH_ERR);
	EQUAL(ibv_wc_read_qp_num(cq), b.qp->qp_num);
	ibv_end_poll(cq);

	unpair(&a, &b);

	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	MUST(cq = ibv_create_cq_ex(ctx, &attr));
	EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	return finish(ctx);
}
