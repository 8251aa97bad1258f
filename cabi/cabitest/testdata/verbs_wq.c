/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues, and queue pairs that spread frames over them: ibv_create_wq(3), ibv_create_qp_ex(3). */
#include "raw.h"

#define WQS 4
#define FRAMES 32

static struct ibv_wq *wqs[WQS];

static void state(struct ibv_wq *wq, enum ibv_wq_state to, int want)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to};

	EQUAL(ibv_modify_wq(wq, &attr), want);
}

static int post(struct end *e, struct ibv_wq *wq, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + 4096, .length = 256, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;

	return ibv_post_wq_recv(wq, &wr, &bad);
}

int main(void)
{
	const uint8_t ip[] = {8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
	struct ibv_context *ctx = open_loopback();
	uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67};
	struct ibv_rwq_ind_table_init_attr tables = {.log_ind_tbl_size = 2, .ind_tbl = wqs};
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = FRAMES, .max_sge = 1};
	struct ibv_qp_init_attr_ex qp_init = {0};
	struct ibv_device_attr_ex dev;
	struct ibv_rwq_ind_table *table;
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} flow = {.attr = {.num_of_specs = 1, .port = PORT, .size = sizeof(flow)}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
	struct ibv_flow *f;
	struct ibv_qp *qp;
	struct end a, b;
	struct ibv_wc wc;
	int used = 0;

	need_cap_net_raw();
	EQUAL(ibv_query_device_ex(ctx, NULL, &dev), 0);
	EQUAL(dev.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET);
	EQUAL(dev.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
	CHECK(dev.rss_caps.max_rwq_indirection_table_size >= WQS && dev.max_wq_type_rq >= WQS);
	raw_open(&a, ctx);
	end_open(&b, ctx, NULL);
	init.pd = b.pd;
	init.cq = b.cq;
	init.max_wr = 1 << 20;
	REFUSED(ibv_create_wq(ctx, &init), EINVAL);
	init.max_wr = FRAMES;
	init.cq = NULL;
	REFUSED(ibv_create_wq(ctx, &init), EINVAL);
	init.cq = b.cq;
	for (int i = 0; i < WQS; i++) {
		MUST(wqs[i] = ibv_create_wq(ctx, &init));
		EQUAL(post(&b, wqs[i], 0), EINVAL); /* in RESET */
		state(wqs[i], IBV_WQS_RDY, 0);
		EQUAL(wqs[i]->state, IBV_WQS_RDY);
		for (int k = 0; k < FRAMES; k++)
			EQUAL(post(&b, wqs[i], (uint64_t)i), 0);
	}
	EQUAL(post(&b, wqs[0], 0), ENOMEM);
	MUST(table = ibv_create_rwq_ind_table(ctx, &tables));
	EQUAL(ibv_destroy_wq(wqs[0]), EBUSY);

	qp_init.qp_type = IBV_QPT_RAW_PACKET;
	qp_init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	qp_init.pd = b.pd;
	qp_init.rwq_ind_tbl = table;
	qp_init.rx_hash_conf = (struct ibv_rx_hash_conf){IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key) - 1, key, IBV_RX_HASH_SRC_IPV4};
	REFUSED(ibv_create_qp_ex(ctx, &qp_init), EINVAL);
	qp_init.rx_hash_conf.rx_hash_key_len++;
	qp_init.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_SRC_IPV6;
	REFUSED(ibv_create_qp_ex(ctx, &qp_init), EINVAL);
	qp_init.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
	MUST(qp = ibv_create_qp_ex(ctx, &qp_init));
	EQUAL(ibv_destroy_rwq_ind_table(table), EBUSY);
	EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EOPNOTSUPP);

	flow.eth.type = IBV_FLOW_SPEC_ETH;
	flow.eth.size = sizeof(flow.eth);
	memcpy(flow.eth.val.dst_mac, (uint8_t[6]){2, 0, 0, 0, 0, 7}, 6);
	memset(flow.eth.mask.dst_mac, 0xff, 6);
	MUST(f = ibv_create_flow(qp, &flow.attr));
	frame_header(&a, 0, 7);
	memcpy(a.buf + 12, ip, sizeof(ip));
	for (int i = 0; i < FRAMES; i++) {
		a.buf[14 + 15] = (char)i; /* the source address */
		EQUAL(post_send(&a, 1, 0, 60), 0);
		WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
		MUST(wait_wc(b.cq, &wc) == 1);
		EQUAL(wc.status, IBV_WC_SUCCESS);
		EQUAL(wc.byte_len, 60);
		EQUAL(wc.qp_num, wqs[wc.wr_id % WQS]->wq_num);
		CHECK(!memcmp(b.buf + 4096, a.buf, 60));
		used |= 1 << wc.wr_id;
	}
	CHECK(used & (used - 1)); /* more than one of them */

	state(wqs[0], IBV_WQS_ERR, 0);
	MUST(wait_wc(b.cq, &wc) == 1);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 0);
	state(wqs[0], IBV_WQS_RDY, EINVAL);
	state(wqs[0], IBV_WQS_RESET, 0);
	EQUAL(ibv_poll_cq(b.cq, 1, &wc), 0);
	EQUAL(ibv_destroy_flow(f), 0);
	EQUAL(ibv_destroy_qp(qp), 0);
	EQUAL(ibv_destroy_rwq_ind_table(table), 0);
	for (int i = 0; i < WQS; i++)
		EQUAL(ibv_destroy_wq(wqs[i]), 0);
	end_close(&a, 1);
	end_close(&b, 1);
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}
