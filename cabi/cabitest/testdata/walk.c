/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tries each enumerator of <infiniband/verbs.h> that a program gives to a call, and prints its
 * name with the errno: 0 where the device takes it. The test has written the enumerators of the
 * installed header to walk.h.
 */
#include "raw.h"

#include <stddef.h>

struct flag {
	const char *name;
	long long value;
};

#include "walk.h"

static struct ibv_context *ctx;
static struct end e;
static int raw; /* packet sockets may be opened */

static void connect_itself(struct ibv_qp *qp)
{
	to_init(qp);
	to_rtr(qp, qp->qp_num);
	to_rts(qp);
}

/* Whether the enumerator makes an object, which is destroyed again. */
#define MADE(expr, destroy)                                                                                            \
	({                                                                                                             \
		errno = 0;                                                                                             \
		__typeof__(expr) o_ = (expr);                                                                          \
		int err_ = o_ ? 0 : errno;                                                                             \
		if (o_)                                                                                                \
			EQUAL(destroy(o_), 0);                                                                         \
		err_;                                                                                                  \
	})

static int access_flag(long long v)
{
	return MADE(ibv_reg_mr_iova2(e.pd, e.buf, 4096, (uintptr_t)e.buf, (unsigned)v | IBV_ACCESS_LOCAL_WRITE), ibv_dereg_mr);
}

static int cq_flag(long long v)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = (uint32_t)v};

	return MADE(ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr)), ibv_destroy_cq);
}

static int wc_field(long long v)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = (uint64_t)v};

	return MADE(ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &attr)), ibv_destroy_cq);
}

static int qp_type(long long v)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = 0100};
	struct ibv_qp_init_attr_ex init = end_init(&e, (enum ibv_qp_type)v);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &x);
	int err;

	if (v == IBV_QPT_XRC_RECV) {
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = xrcd;
	}
	err = MADE(ibv_create_qp_ex(ctx, &init), ibv_destroy_qp);
	EQUAL(ibv_close_xrcd(xrcd), 0);
	return err;
}

/* Of a raw packet queue pair, or of a UD one where there may be none. */
static int qp_create_flag(long long v)
{
	struct ibv_qp_init_attr_ex init = end_init(&e, raw ? IBV_QPT_RAW_PACKET : IBV_QPT_UD);
	int err;

	init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = (uint32_t)v;
	err = MADE(ibv_create_qp_ex(ctx, &init), ibv_destroy_qp);
	if (err && raw) { /* some are for UD */
		init.qp_type = IBV_QPT_UD;
		err = MADE(ibv_create_qp_ex(ctx, &init), ibv_destroy_qp);
	}
	return err;
}

static int send_ops(long long v)
{
	struct ibv_qp_init_attr_ex init = end_init(&e, IBV_QPT_RC);

	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = (uint64_t)v;
	return MADE(ibv_create_qp_ex(ctx, &init), ibv_destroy_qp);
}

static int send_flag(long long v)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e.buf, .length = 8, .lkey = e.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = (unsigned)v | IBV_SEND_SIGNALED}, *bad;
	int err;

	wr.wr.rdma.remote_addr = (uintptr_t)e.buf + 4096;
	wr.wr.rdma.rkey = e.mr->rkey;
	err = ibv_post_send(e.qp, &wr, &bad);
	if (!err)
		WANT_WC(e.cq, 1, IBV_WC_SUCCESS);
	return err;
}

/* In a queue pair of its own, which a bad one may break. */
static int opcode(long long v)
{
	struct end a;
	struct ibv_mw *mw;
	struct ibv_sge sge = {.addr = (uintptr_t)e.buf, .length = 8, .lkey = e.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)v, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int err;

	end_open(&a, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	connect_itself(a.qp);
	MUST(mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	for (uint64_t id = 2; id < 4; id++)
		EQUAL(post_recv(&a, id, 0, 64), 0);
	sge.lkey = a.mr->lkey;
	sge.addr = (uintptr_t)a.buf;
	if (v == IBV_WR_ATOMIC_CMP_AND_SWP || v == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)a.buf + 4096;
		wr.wr.atomic.rkey = a.mr->rkey;
	} else if (v == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = a.mr, .addr = (uintptr_t)a.buf, .length = 8};
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)a.buf + 4096;
		wr.wr.rdma.rkey = a.mr->rkey;
	}
	err = ibv_post_send(a.qp, &wr, &bad);
	if (!err)
		do /* a window to invalidate there is not: the status says so */
			MUST(wait_wc(a.cq, &wc) == 1);
		while (wc.wr_id != 1);
	EQUAL(ibv_destroy_qp(a.qp), 0);
	a.qp = NULL;
	EQUAL(ibv_dealloc_mw(mw), 0);
	end_close(&a, 1);
	return err;
}

static int srq_type(long long v)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = 0100};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &x);
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1}, .pd = e.pd, .cq = e.cq, .xrcd = xrcd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .srq_type = (enum ibv_srq_type)v, .tm_cap = {4, 4}};
	int err;

	if (v != IBV_SRQT_BASIC)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | (v == IBV_SRQT_XRC ? IBV_SRQ_INIT_ATTR_XRCD : IBV_SRQ_INIT_ATTR_TM);
	err = MADE(ibv_create_srq_ex(ctx, &attr), ibv_destroy_srq);
	EQUAL(ibv_close_xrcd(xrcd), 0);
	return err;
}

static int mw_type(long long v)
{
	return MADE(ibv_alloc_mw(e.pd, (enum ibv_mw_type)v), ibv_dealloc_mw);
}

static int wq_flag(long long v)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = e.pd, .cq = e.cq,
		.comp_mask = IBV_WQ_INIT_ATTR_FLAGS, .create_flags = (uint32_t)v};

	return MADE(ibv_create_wq(ctx, &init), ibv_destroy_wq);
}

/* A field with its partner: hashes are of a pair's source, or destination, or both. */
static int hash_field(long long v)
{
	uint8_t key[40] = {1};
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = e.pd, .cq = e.cq};
	struct ibv_wq *wq = ibv_create_wq(ctx, &init);
	struct ibv_rwq_ind_table_init_attr tables = {.ind_tbl = &wq};
	struct ibv_qp_init_attr_ex qp = {.qp_type = IBV_QPT_RAW_PACKET, .pd = e.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH};
	int err;

	MUST(wq && (qp.rwq_ind_tbl = ibv_create_rwq_ind_table(ctx, &tables)));
	qp.rx_hash_conf = (struct ibv_rx_hash_conf){IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, (uint64_t)v};
	err = MADE(ibv_create_qp_ex(ctx, &qp), ibv_destroy_qp);
	EQUAL(ibv_destroy_rwq_ind_table(qp.rwq_ind_tbl), 0);
	EQUAL(ibv_destroy_wq(wq), 0);
	return err;
}

/* -- flows ---------------------------------------------------------------------------- */

static struct end steered;

static int flow(struct ibv_flow_attr attr, uint32_t type, uint16_t size)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		uint8_t more[128];
	} __attribute__((packed, aligned(8))) rule;
	struct ibv_flow_spec_counter_action more = {.type = (enum ibv_flow_spec_type)type, .size = size};
	struct ibv_counters_init_attr none = {0};
	int err;

	MUST(more.counters = ibv_create_counters(ctx, &none));
	memset(&rule, 0, sizeof(rule));
	rule.attr = attr;
	rule.attr.size = sizeof(rule);
	rule.attr.port = PORT;
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	rule.eth.size = sizeof(rule.eth);
	memcpy(rule.more, &more, type == IBV_FLOW_SPEC_ACTION_COUNT ? sizeof(more) : offsetof(struct ibv_flow_spec_counter_action, counters));
	if (size)
		rule.attr.num_of_specs = 2;
	err = MADE(ibv_create_flow(steered.qp, (struct ibv_flow_attr *)(void *)&rule), ibv_destroy_flow);
	EQUAL(ibv_destroy_counters(more.counters), 0);
	return err;
}

static int flow_flag(long long v)
{
	return flow((struct ibv_flow_attr){.num_of_specs = 1, .flags = (uint32_t)v}, 0, 0);
}

static int flow_type(long long v)
{
	return flow((struct ibv_flow_attr){.num_of_specs = v == IBV_FLOW_ATTR_NORMAL, .type = (enum ibv_flow_attr_type)v}, 0, 0);
}

/* Behind an Ethernet header with masks of zeros, or alone. INNER is a bit beside a header's type. */
static int flow_spec(long long v)
{
	static const struct {
		enum ibv_flow_spec_type type;
		uint16_t size;
	} sizes[] = {
		{IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4)}, {IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext)},
		{IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6)}, {IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp)}, {IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel)},
		{IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre)}, {IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls)},
		{IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp)}, {IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
		{IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
		{IBV_FLOW_SPEC_ACTION_HANDLE, sizeof(struct ibv_flow_spec_action_handle)},
		{IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action)},
	};

	if (v == IBV_FLOW_SPEC_ETH)
		return flow((struct ibv_flow_attr){.num_of_specs = 1}, 0, 0);
	if (v == IBV_FLOW_SPEC_INNER)
		return flow((struct ibv_flow_attr){0}, IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].type == v)
			return flow((struct ibv_flow_attr){0}, (uint32_t)v, sizes[i].size);
	return -1; /* the program does not know it */
}

/* -- the walk --------------------------------------------------------------------------- */

#define WALK(list, try)                                                                                                \
	for (size_t i_ = 0; i_ < sizeof(list) / sizeof(list[0]); i_++)                                                 \
	printf("%s %d\n", list[i_].name, try(list[i_].value))

int main(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	raw = fd >= 0;
	if (raw)
		close(fd);
	ctx = open_loopback();
	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	connect_itself(e.qp);
	WALK(ibv_access_flags, access_flag);
	WALK(ibv_create_cq_attr_flags, cq_flag);
	WALK(ibv_create_cq_wc_flags, wc_field);
	WALK(ibv_qp_type, qp_type);
	WALK(ibv_qp_create_flags, qp_create_flag);
	WALK(ibv_qp_create_send_ops_flags, send_ops);
	WALK(ibv_send_flags, send_flag);
	WALK(ibv_wr_opcode, opcode);
	WALK(ibv_srq_type, srq_type);
	WALK(ibv_mw_type, mw_type);
	WALK(ibv_wq_flags, wq_flag);
	if (raw) {
		raw_open(&steered, ctx);
		WALK(ibv_rx_hash_fields, hash_field);
		WALK(ibv_flow_flags, flow_flag);
		WALK(ibv_flow_attr_type, flow_type);
		WALK(ibv_flow_spec_type, flow_spec);
		end_close(&steered, 1);
	}
	end_close(&e, 1);
	return finish(ctx);
}
