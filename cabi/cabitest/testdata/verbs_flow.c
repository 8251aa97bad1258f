/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow steering: ibv_create_flow(3). */
#include "raw.h"

static struct {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4_ext ip;
	struct ibv_flow_spec_tcp_udp udp;
} __attribute__((packed, aligned(8))) rule;

/* A flow of frames to an address; more specs are those behind it. */
static struct ibv_flow_attr *to(uint8_t last, uint8_t specs)
{
	memset(&rule, 0, sizeof(rule));
	rule.attr = (struct ibv_flow_attr){.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = specs, .port = PORT};
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	rule.eth.size = sizeof(rule.eth);
	memcpy(rule.eth.val.dst_mac, (uint8_t[6]){2, 0, 0, 0, 0, last}, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	rule.ip.type = IBV_FLOW_SPEC_IPV4_EXT;
	rule.ip.size = sizeof(rule.ip);
	rule.ip.val.dst_ip = htonl(0x0a000002);
	rule.ip.mask.dst_ip = 0xffffffff;
	rule.udp.type = IBV_FLOW_SPEC_UDP;
	rule.udp.size = sizeof(rule.udp);
	rule.udp.val.dst_port = htons(9);
	rule.udp.mask.dst_port = 0xffff;
	return (struct ibv_flow_attr *)(void *)&rule;
}

static void refusals(struct end *e, struct ibv_context *ctx)
{
	struct ibv_flow_attr *attr;
	struct end ud;

	end_open(&ud, ctx, NULL);
	end_qp(&ud, IBV_QPT_UD);
	REFUSED(ibv_create_flow(ud.qp, to(1, 1)), EINVAL);
	end_close(&ud, 1);
	REFUSED(ibv_create_flow(e->qp, NULL), EINVAL);
	attr = to(1, 1);
	attr->comp_mask = 1;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	attr->port = 2;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	attr->flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	REFUSED(ibv_create_flow(e->qp, attr), EOPNOTSUPP);
	attr = to(1, 1);
	attr->type = IBV_FLOW_ATTR_SNIFFER; /* with a spec */
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	attr->type = (enum ibv_flow_attr_type)300;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	rule.eth.size--;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	rule.eth.size = 0;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
	attr = to(1, 1);
	rule.eth.type = IBV_FLOW_SPEC_VXLAN_TUNNEL;
	REFUSED(ibv_create_flow(e->qp, attr), EOPNOTSUPP);
	attr = to(1, 3);
	rule.udp.type = IBV_FLOW_SPEC_ETH;
	REFUSED(ibv_create_flow(e->qp, attr), EINVAL);
}

/* The completions of frames have the tag of their flow. A flow that drops keeps them from others. */
static void actions(struct ibv_context *ctx, struct end *a)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_action_tag tag;
	} __attribute__((packed, aligned(8))) tags = {
		.attr = {.priority = 1, .num_of_specs = 2, .port = PORT},
		.tag = {.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(tags.tag), .tag_id = 0xfedcba98}};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_action_drop drop;
	} __attribute__((packed, aligned(8))) drops = {
		.attr = {.num_of_specs = 2, .port = PORT},
		.drop = {.type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(drops.drop)}};
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_flow *tag, *drop;
	struct ibv_cq_ex *cq;
	struct end b;
	long long end;

	MUST(cq = ibv_create_cq_ex(ctx, &attr));
	end_open(&b, ctx, ibv_cq_ex_to_cq(cq));
	end_qp(&b, IBV_QPT_RAW_PACKET);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		raw_to(b.qp, s);
	to(3, 1);
	memcpy(&tags.eth, &rule.eth, sizeof(rule.eth));
	tags.eth.mask.dst_mac[5] = 0; /* 3 and 4 */
	memcpy(&drops.eth, &rule.eth, sizeof(rule.eth));
	MUST(tag = ibv_create_flow(b.qp, (struct ibv_flow_attr *)(void *)&tags));
	MUST(drop = ibv_create_flow(b.qp, (struct ibv_flow_attr *)(void *)&drops));
	EQUAL(post_recv(&b, 1, 4096, 2048), 0);
	for (uint8_t last = 3; last <= 4; last++) {
		frame_header(a, 0, last);
		EQUAL(post_send(a, last, 0, 60), 0);
		WANT_WC(a->cq, last, IBV_WC_SUCCESS);
	}
	for (end = now_ms() + PATIENCE_MS; ibv_start_poll(cq, &none) == ENOENT;)
		MUST(now_ms() < end);
	EQUAL(cq->status, IBV_WC_SUCCESS);
	EQUAL(ibv_wc_read_flow_tag(cq), 0xfedcba98);
	EQUAL(b.buf[4096 + 5], 4);
	EQUAL(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	EQUAL(ibv_destroy_flow(drop), 0);
	EQUAL(ibv_destroy_flow(tag), 0);
	end_close(&b, 1);
}

int main(void)
{
	const uint8_t ip[] = {8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0};
	struct ibv_context *ctx = open_loopback();
	struct ibv_device_attr dev;
	struct ibv_flow *flow, *specific;
	struct end a, b, c;

	need_cap_net_raw();
	EQUAL(ibv_query_device(ctx, &dev), 0);
	CHECK(dev.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	raw_open(&a, ctx);
	raw_open(&b, ctx);
	raw_open(&c, ctx);
	refusals(&b, ctx);

	MUST(flow = ibv_create_flow(b.qp, to(1, 1)));
	CHECK(flow->context == ctx);
	MUST(specific = ibv_create_flow(c.qp, to(2, 3)));
	EQUAL(post_recv(&b, 1, 4096, 2048), 0);
	EQUAL(post_recv(&c, 2, 4096, 2048), 0);
	frame_header(&a, 0, 1);
	memset(a.buf + 14, 7, 46);
	EQUAL(post_send(&a, 3, 0, 60), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(b.buf + 4096, a.buf, 60));
	frame_header(&a, 0, 2);
	memcpy(a.buf + 12, ip, sizeof(ip));
	EQUAL(post_send(&a, 4, 0, 60), 0);
	WANT_WC(a.cq, 4, IBV_WC_SUCCESS);
	WANT_WC(c.cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(c.buf + 4096, a.buf, 60));

	actions(ctx, &a);
	EQUAL(ibv_destroy_qp(b.qp), EBUSY);
	EQUAL(ibv_destroy_flow(flow), 0);
	EQUAL(ibv_destroy_flow(specific), 0);
	end_close(&a, 1);
	end_close(&b, 1);
	end_close(&c, 1);
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}
