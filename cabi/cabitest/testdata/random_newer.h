/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How random_calls.c makes and uses the objects of newer verbs: device memory, work queues, flows,
 * counters, parent domains, imports.
 */
#ifndef TEST_RANDOM_NEWER_H
#define TEST_RANDOM_NEWER_H

#include "newer.h"
#include "random.h"

#include <unistd.h>

/* -- memory -------------------------------------------------------------------------- */

static void make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = number(1 << 16), .log_align_req = number(14), .comp_mask = wrong_in(8)};

	keep(DM, ibv_alloc_dm(context(), &attr));
}

static void call_dm(void)
{
	struct place *p = use(DM), *pd = use(PD);

	if (p) {
		ibv_memcpy_to_dm(object(p), one_in(10) ? any() : number(1 << 16) & ~3u, area(0), number(4096) & 0xffffu);
		ibv_memcpy_from_dm(area(1), object(p), one_in(10) ? any() : number(1 << 16) & ~3u, number(4096) & 0xffffu);
		if (pd && one_in(3))
			keep(MR, ibv_reg_dm_mr(object(pd), object(p), number(1 << 16), number(1 << 16),
					       (unsigned)(one_in(6) ? (int)any() : ALL_ACCESS & ~IBV_ACCESS_MW_BIND) | IBV_ACCESS_ZERO_BASED));
	}
	done(p), done(pd);
}

static void call_regions(void)
{
	struct place *pd = use(PD), *mr = use(MR);
	struct ibv_sge sge[2] = {{.addr = any(), .length = number(1000), .lkey = any()}};
	struct ibv_mr *m = object(mr);

	if (m)
		sge[1] = (struct ibv_sge){.addr = (uintptr_t)m->addr + number(100), .length = number(4096), .lkey = m->lkey};
	if (pd && one_in(4))
		keep(MR, ibv_alloc_null_mr(object(pd)));
	if (pd && one_in(8))
		CHECK(!ibv_reg_dmabuf_mr(object(pd), any(), number(1 << 20), any(), -1, (int)any()));
	if (pd)
		ibv_advise_mr(object(pd), (enum ibv_advise_mr_advice)number(4), number(3), sge, one_in(8) ? 0 : 1 + below(2));
	done(pd), done(mr);
}

static void make_parent(void)
{
	struct place *pd = use(PD), *td = use(TD);
	struct ibv_td_init_attr none = {.comp_mask = wrong_in(4)};
	struct ibv_parent_domain_init_attr attr = {.pd = object(pd), .td = object(td), .comp_mask = wrong_in(4) ? any() : 0};

	if (one_in(2))
		keep(TD, ibv_alloc_td(context(), &none));
	else if (pd)
		keep(PARENT, ibv_alloc_parent_domain(one_in(6) ? context() : attr.pd->context, &attr));
	done(pd), done(td);
}

/* Objects by their handles, or by some number, in another context. */
static void call_import(void)
{
	struct place *pd = use(PD), *mr = use(MR), *dm = use(DM);
	int fd = dup(context()->cmd_fd);
	struct ibv_context *other = ibv_import_device(fd);

	if (other) {
		struct ibv_pd *p = ibv_import_pd(other, pd && !one_in(4) ? ((struct ibv_pd *)object(pd))->handle : any());
		struct ibv_mr *m = p ? ibv_import_mr(p, mr && !one_in(4) ? ((struct ibv_mr *)object(mr))->handle : any()) : NULL;
		struct ibv_dm *d = ibv_import_dm(other, dm && !one_in(4) ? ((struct ibv_dm *)object(dm))->handle : any());

		if (m)
			ibv_unimport_mr(m);
		if (d)
			ibv_unimport_dm(d);
		if (p)
			ibv_unimport_pd(p);
		EQUAL(ibv_close_device(other), 0);
	} else if (fd >= 0) {
		close(fd);
	}
	done(pd), done(mr), done(dm);
}

static void call_handles(void)
{
	struct dmah_attr attr = {.comp_mask = one_in(3) ? any() : below(8), .cpu_id = any(), .ph = (uint8_t)any(), .tph_mem_type = (uint8_t)below(3)};
	struct dmah *h = ibv_alloc_dmah(context(), &attr);

	if (h)
		CHECK(fine(ibv_dealloc_dmah(h)));
}

/* -- counters --------------------------------------------------------------------------- */

static void make_counter(void)
{
	struct ibv_counters_init_attr none = {.comp_mask = wrong_in(4)};
	struct cntr_init_attr attr = {.comp_mask = one_in(2), .type = number(3), .flags = wrong_in(8)};

	if (one_in(2))
		keep(COUNTERS, ibv_create_counters(context(), &none));
	else
		keep(CNTR, ibv_create_comp_cntr(context(), &attr));
}

static void call_counter(void)
{
	struct place *c = use(COUNTERS), *n = use(CNTR), *q = use(QP), *f = use(FLOW);
	struct ibv_counter_attach_attr to = {.counter_desc = (enum ibv_counter_description)number(3), .index = number(4)};
	struct cntr_attach_attr ops = {.comp_mask = wrong_in(8), .op_mask = one_in(3) ? any() : 1 + below(31)};
	uint64_t values[4], value;

	if (c) {
		ibv_attach_counters_point_flow(object(c), &to, one_in(8) ? NULL : object(f));
		ibv_read_counters(object(c), values, one_in(20) ? 0 : 1 + below(4), number(3));
	}
	if (n) {
		if (q)
			ibv_qp_attach_comp_cntr(object(q), object(n), &ops);
		ibv_set_comp_cntr(object(n), any());
		ibv_inc_err_comp_cntr(object(n), any());
		CHECK(fine(ibv_read_comp_cntr(object(n), &value)));
		CHECK(fine(ibv_read_err_comp_cntr(object(n), &value)));
	}
	done(c), done(n), done(q), done(f);
}

/* -- frames ------------------------------------------------------------------------------ */

#define TABLES 3 /* the binary logarithm of the longest table */

static void make_wq(void)
{
	struct place *pd = use(PD), *p;
	struct ibv_cq *cq = use_cq(&p);
	struct ibv_wq_init_attr attr = {.wq_type = (enum ibv_wq_type)wrong_in(4), .max_wr = number(64) & 0xffff, .max_sge = number(4),
		.pd = object(pd), .cq = cq, .comp_mask = wrong_in(4) ? any() : 0, .create_flags = number(16)};

	if (pd && cq)
		keep(WQ, ibv_create_wq(one_in(8) ? context() : attr.pd->context, &attr));
	done(pd), done(p);
}

static void call_wq(void)
{
	struct place *p = use(WQ), *mr;
	struct ibv_wq_attr attr = {.attr_mask = one_in(6) ? any() : IBV_WQ_ATTR_STATE | below(2) * IBV_WQ_ATTR_CURR_STATE,
				   .wq_state = (enum ibv_wq_state)number(4), .curr_wq_state = (enum ibv_wq_state)number(4), .flags = any()};
	struct ibv_wq *wq = object(p);

	if (!p)
		return;
	mr = use_mr(wq->pd);
	if (one_in(3))
		ibv_modify_wq(wq, &attr);
	for (int i = 0; i < 4; i++) {
		struct ibv_mr *m = object(mr);
		struct ibv_sge sge = {.addr = m ? (uintptr_t)m->addr : any(), .length = number(2048), .lkey = m ? m->lkey : any()};
		struct ibv_recv_wr wr = {.wr_id = any(), .sg_list = &sge, .num_sge = (int)below(2)}, *bad = NULL;

		if (ibv_post_wq_recv(wq, &wr, &bad) && bad != &wr)
			failed(__FILE__, __LINE__, "bad_wr is none of the list's");
	}
	done(p), done(mr);
}

static void make_table(void)
{
	struct place *of[1 << TABLES];
	struct ibv_wq *wqs[1 << TABLES];
	struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = below(TABLES + 1), .ind_tbl = wqs, .comp_mask = wrong_in(4)};
	int all = 1;

	for (int i = 0; i < 1 << TABLES; i++) {
		of[i] = use(WQ);
		wqs[i] = object(of[i]);
		all = all && of[i];
	}
	if (all)
		keep(TABLE, ibv_create_rwq_ind_table(one_in(8) ? context() : wqs[0]->context, &attr));
	for (int i = 0; i < 1 << TABLES; i++)
		done(of[i]);
}

static void make_rss(void)
{
	struct place *pd = use(PD), *table = use(TABLE);
	uint8_t key[40] = {1, 2, 3};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RAW_PACKET, .pd = object(pd), .rwq_ind_tbl = object(table),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH};

	attr.rx_hash_conf = (struct ibv_rx_hash_conf){(uint8_t)number(3), wrong_in(4) ? (uint8_t)below(40) : 40, key, wrong_in(4) ? any() : 3u << 2 * below(4)};
	if (pd && table)
		keep(QP, ibv_create_qp_ex(attr.pd->context, &attr));
	done(pd), done(table);
}

static void make_raw(void)
{
	struct place *pd = use(PD), *p;
	struct ibv_cq *cq = use_cq(&p);
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RAW_PACKET, .pd = object(pd), .send_cq = cq, .recv_cq = cq, .cap = {16, 16, 2, 2, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp = pd && cq ? ibv_create_qp_ex(attr.pd->context, &attr) : NULL;

	for (int state = IBV_QPS_INIT; qp && state <= (int)below(4); state++) {
		struct ibv_qp_attr to = {.qp_state = (enum ibv_qp_state)state, .port_num = PORT};

		ibv_modify_qp(qp, &to, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
	}
	keep(QP, qp);
	done(pd), done(p);
}

/* Of an address of nobody's; with actions, headers that are cut short, and types that are none. */
static void make_flow(void)
{
	struct place *q = use(QP), *c = use(COUNTERS);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		union {
			struct ibv_flow_spec_action_tag tag;
			struct ibv_flow_spec_counter_action count;
			struct ibv_flow_spec_ipv4 ip;
			uint32_t words[16];
		} more;
	} __attribute__((packed, aligned(8))) rule;

	memset(&rule, 0, sizeof(rule));
	rule.attr = (struct ibv_flow_attr){.size = wrong_in(4) ? (uint16_t)any() : sizeof(rule), .num_of_specs = (uint8_t)(1 + below(2)),
		.port = PORT, .priority = (uint16_t)any(), .flags = one_in(4) ? number(8) : 0, .type = (enum ibv_flow_attr_type)wrong_in(4)};
	rule.eth.type = IBV_FLOW_SPEC_ETH;
	rule.eth.size = sizeof(rule.eth);
	memcpy(rule.eth.val.dst_mac, (uint8_t[6]){2, 0, 0, 0, 0, 77}, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	switch (below(5)) {
	case 0:
		rule.more.tag = (struct ibv_flow_spec_action_tag){IBV_FLOW_SPEC_ACTION_TAG, sizeof(rule.more.tag), any()};
		break;
	case 1:
		rule.more.tag = (struct ibv_flow_spec_action_tag){IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop), 0};
		break;
	case 2:
		if (c)
			rule.more.count = (struct ibv_flow_spec_counter_action){IBV_FLOW_SPEC_ACTION_COUNT, sizeof(rule.more.count), object(c)};
		break;
	case 3:
		rule.more.ip = (struct ibv_flow_spec_ipv4){.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(rule.more.ip)};
		break;
	default:
		rule.more.words[0] = number(0x200);
		((uint16_t *)rule.more.words)[2] = (uint16_t)number(sizeof(rule.more));
		if (rule.more.words[0] == IBV_FLOW_SPEC_ACTION_COUNT || rule.more.words[0] == IBV_FLOW_SPEC_ACTION_HANDLE)
			rule.attr.num_of_specs = 1; /* they have pointers */
	}
	if (rule.attr.size > sizeof(rule)) /* it is read: a short one is refused, a long one is the caller's */
		rule.attr.size = sizeof(rule);
	if (q)
		keep(FLOW, ibv_create_flow(object(q), &rule.attr));
	done(q), done(c);
}

/* -- other calls --------------------------------------------------------------------------- */

static void call_newer(void)
{
	struct place *q = use(QP), *p, *x = use(XRCD);
	struct ibv_cq *cq = use_cq(&p);
	struct ibv_modify_cq_attr attr = {.attr_mask = wrong_in(4) ? any() : IBV_CQ_ATTR_MODERATE, .moderate = {(uint16_t)number(8), (uint16_t)number(100)}};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = one_in(2) ? 0 : any(), .max_burst_sz = number(1 << 20), .typical_pkt_sz = (uint16_t)number(4096),
					      .comp_mask = wrong_in(8)};
	struct ibv_ece ece = {.vendor_id = any()};

	if (cq)
		ibv_modify_cq(cq, &attr);
	if (q) {
		ibv_modify_qp_rate_limit(object(q), &rate);
		rate = (struct ibv_qp_rate_limit_attr){0}; /* else all is slow */
		ibv_modify_qp_rate_limit(object(q), &rate);
		CHECK(ibv_set_ece(object(q), &ece) == EOPNOTSUPP);
	}
	if (q && x) {
		struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .xrcd = object(x),
						.qp_num = ((struct ibv_qp *)object(q))->qp_num, .qp_type = IBV_QPT_XRC_RECV};

		keep(QP, ibv_open_qp(((struct ibv_xrcd *)object(x))->context, &open));
	}
	done(q), done(p), done(x);
}

#endif
