/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet queue pairs: ibv_create_qp(3), ibv_modify_qp(3). */
#include "raw.h"

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_device_attr_ex dev;
	struct ibv_qp_init_attr made;
	struct ibv_qp *qp;
	struct end e;

	need_cap_net_raw();
	EQUAL(ibv_query_device_ex(ctx, NULL, &dev), 0);
	EQUAL(dev.orig_attr.max_raw_ethy_qp, dev.orig_attr.max_qp);
	end_open(&e, ctx, NULL);
	init = end_init(&e, IBV_QPT_RAW_PACKET);
	init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init = end_init(&e, IBV_QPT_RAW_PACKET);
	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	MUST(qp = ibv_create_qp_ex(ctx, &init));
	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL); /* without a port */
	raw_to(qp, IBV_QPS_INIT);
	EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &made), 0);
	CHECK(attr.qp_state == IBV_QPS_INIT && made.qp_type == IBV_QPT_RAW_PACKET);
	EQUAL(ibv_destroy_qp(qp), 0);
	end_close(&e, 1);

	raw_open(&e, ctx);
	frame_header(&e, 0, 1);
	EQUAL(post_send(&e, 1, 0, 60), 0);
	WANT_WC(e.cq, 1, IBV_WC_SUCCESS);
	EQUAL(post_send(&e, 2, 0, 13), 0);
	WANT_WC(e.cq, 2, IBV_WC_LOC_LEN_ERR);
	end_close(&e, 1);
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}
