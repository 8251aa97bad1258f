/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of flows: ibv_create_counters(3), ibv_attach_counters_point_flow(3), ibv_read_counters(3). */
#include "raw.h"

static struct {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_counter_action count;
} __attribute__((packed, aligned(8))) rule;

static struct ibv_flow *flow_to(struct ibv_qp *qp, uint8_t last, struct ibv_counters *counters)
{
	memset(&rule, 0, sizeof(rule));
	rule.attr = (struct ibv_flow_attr){.size = sizeof(rule), .num_of_specs = counters ? 2 : 1, .port = PORT};
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	rule.eth.size = sizeof(rule.eth);
	memcpy(rule.eth.val.dst_mac, (uint8_t[6]){2, 0, 0, 0, 0, last}, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	rule.count = (struct ibv_flow_spec_counter_action){IBV_FLOW_SPEC_ACTION_COUNT, sizeof(rule.count), counters};
	return ibv_create_flow(qp, (struct ibv_flow_attr *)(void *)&rule);
}

static int attach(struct ibv_counters *c, enum ibv_counter_description what, uint32_t index, struct ibv_flow *flow)
{
	struct ibv_counter_attach_attr attr = {.counter_desc = what, .index = index};

	return ibv_attach_counters_point_flow(c, &attr, flow);
}

static void pass(struct end *a, struct end *b, uint8_t last, uint32_t bytes)
{
	frame_header(a, 0, last);
	EQUAL(post_recv(b, 1, 4096, 2048), 0);
	EQUAL(post_send(a, 2, 0, bytes), 0);
	WANT_WC(a->cq, 2, IBV_WC_SUCCESS);
	WANT_WC(b->cq, 1, IBV_WC_SUCCESS);
}

#define WANT_VALUES(counters, a, b, c)                           \
	do {                                                     \
		uint64_t v_[3];                                  \
		EQUAL(ibv_read_counters(counters, v_, 3, 0), 0); \
		EQUAL(v_[0], a);                                 \
		EQUAL(v_[1], b);                                 \
		EQUAL(v_[2], c);                                 \
	} while (0)

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_counters_init_attr init = {0};
	struct ibv_counters *at_once, *later;
	struct ibv_flow *one, *two;
	uint64_t values[300];
	struct end a, b;

	need_cap_net_raw();
	raw_open(&a, ctx);
	raw_open(&b, ctx);
	init.comp_mask = 1;
	REFUSED(ibv_create_counters(ctx, &init), EINVAL);
	init.comp_mask = 0;
	MUST(at_once = ibv_create_counters(ctx, &init));
	MUST(later = ibv_create_counters(ctx, &init));
	CHECK(at_once->context == ctx);
	EQUAL(attach(at_once, IBV_COUNTER_PACKETS, 0, NULL), 0);
	EQUAL(attach(at_once, IBV_COUNTER_BYTES, 2, NULL), 0);
	EQUAL(attach(at_once, IBV_COUNTER_BYTES, 1 << 20, NULL), EINVAL);
	EQUAL(attach(at_once, (enum ibv_counter_description)9, 0, NULL), ENOTSUP);

	MUST(one = flow_to(b.qp, 1, at_once));
	MUST(two = flow_to(b.qp, 2, at_once));
	EQUAL(attach(at_once, IBV_COUNTER_BYTES, 1, NULL), EBUSY);
	EQUAL(ibv_destroy_counters(at_once), EBUSY);
	pass(&a, &b, 1, 60);
	EQUAL(attach(later, IBV_COUNTER_PACKETS, 1, one), 0);
	pass(&a, &b, 1, 100);
	pass(&a, &b, 2, 1000);
	WANT_VALUES(at_once, 3, 0, 1160);
	WANT_VALUES(later, 0, 1, 0);
	EQUAL(ibv_destroy_flow(one), 0);
	WANT_VALUES(at_once, 3, 0, 1160);
	WANT_VALUES(later, 0, 1, 0);
	pass(&a, &b, 2, 40);
	WANT_VALUES(at_once, 4, 0, 1200);
	EQUAL(ibv_read_counters(at_once, values, 300, 0), EINVAL);
	EQUAL(ibv_read_counters(at_once, values, 0, 0), EINVAL);
	EQUAL(ibv_read_counters(at_once, values, 1, 2), EINVAL);
	EQUAL(ibv_read_counters(at_once, values, 1, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	EQUAL(ibv_destroy_flow(two), 0);
	EQUAL(ibv_destroy_counters(at_once), 0);
	EQUAL(ibv_destroy_counters(later), 0);
	end_close(&a, 1);
	end_close(&b, 1);
	EQUAL(ibv_close_device(ctx), 0);
	return failures != 0;
}
