/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errno after the functions of <infiniband/verbs.h> that are inline there and reach the library by
 * the context: calls.h. Work queues and flows are for raw packet queue pairs, which need
 * CAP_NET_RAW.
 */
#include "calls.h"
#include "raw.h"

static struct ibv_context *ctx;
static struct end e;

static void device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = SUCCEEDS(ibv_alloc_dm, (ctx, &attr), != NULL);
	struct ibv_mr *mr;

	FAILS_NULL(ibv_alloc_dm, (ctx, &(struct ibv_alloc_dm_attr){.length = SIZE_MAX}));
	SUCCEEDS(ibv_memcpy_to_dm, (dm, 0, e.buf, 64), == 0);
	FAILS_ERRNO(ibv_memcpy_to_dm, (dm, 4096, e.buf, 64));
	SUCCEEDS(ibv_memcpy_from_dm, (e.buf, dm, 0, 64), == 0);
	FAILS_ERRNO(ibv_memcpy_from_dm, (e.buf, dm, UINT64_MAX - 3, 64));
	mr = SUCCEEDS(ibv_reg_dm_mr, (e.pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED), != NULL);
	FAILS_NULL(ibv_reg_dm_mr, (e.pd, dm, 1, 4096, IBV_ACCESS_ZERO_BASED));
	FAILS_ERRNO(ibv_free_dm, (dm)); /* EBUSY */
	MUST(!ibv_dereg_mr(mr));
	SUCCEEDS(ibv_free_dm, (dm), == 0);
}

static void regions(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e.buf, .length = 64};
	struct ibv_mr *mr = SUCCEEDS(ibv_alloc_null_mr, (e.pd), != NULL);

	FAILS_ERRNO(ibv_dealloc_pd, (e.pd)); /* EBUSY */
	MUST(!ibv_dereg_mr(mr));
	MUST(mr = ibv_reg_mr(e.pd, e.buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	sge.lkey = mr->lkey;
	SUCCEEDS(ibv_advise_mr, (e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), == 0);
	FAILS_ERRNO(ibv_advise_mr, (e.pd, (enum ibv_advise_mr_advice)99, 0, &sge, 1));
	FAILS_ERRNO(ibv_advise_mr, (e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0));
	MUST(!ibv_dereg_mr(mr));
}

static void counters(void)
{
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters_init_attr attr = {0};
	struct ibv_counters *c = SUCCEEDS(ibv_create_counters, (ctx, &attr), != NULL);
	uint64_t value;

	FAILS_NULL(ibv_create_counters, (ctx, &(struct ibv_counters_init_attr){.comp_mask = 1}));
	SUCCEEDS(ibv_attach_counters_point_flow, (c, &attach, NULL), == 0);
	FAILS_ERRNO(ibv_attach_counters_point_flow, (c, NULL, NULL));
	SUCCEEDS(ibv_read_counters, (c, &value, 1, 0), == 0);
	FAILS_ERRNO(ibv_read_counters, (c, NULL, 1, 0));
	SUCCEEDS(ibv_destroy_counters, (c), == 0);
	FAILS_ERRNO(ibv_destroy_cq, (e.cq)); /* EBUSY: its queue pair is there */
}

static void work_queues(void)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = e.pd, .cq = e.cq};
	struct ibv_wq *wq = SUCCEEDS(ibv_create_wq, (ctx, &init), != NULL);
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = &wq};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_rwq_ind_table *table;

	FAILS_NULL(ibv_create_wq, (ctx, &(struct ibv_wq_init_attr){0}));
	FAILS_ERRNO(ibv_post_wq_recv, (wq, &wr, &bad)); /* in RESET */
	SUCCEEDS(ibv_modify_wq, (wq, &(struct ibv_wq_attr){IBV_WQ_ATTR_STATE, IBV_WQS_RDY, 0, 0, 0}), == 0);
	FAILS_ERRNO(ibv_modify_wq, (wq, &(struct ibv_wq_attr){1 << 20, IBV_WQS_RDY, 0, 0, 0}));
	SUCCEEDS(ibv_post_wq_recv, (wq, &wr, &bad), == 0);
	table = SUCCEEDS(ibv_create_rwq_ind_table, (ctx, &attr), != NULL);
	FAILS_NULL(ibv_create_rwq_ind_table, (ctx, &(struct ibv_rwq_ind_table_init_attr){0}));
	FAILS_ERRNO(ibv_destroy_wq, (wq)); /* EBUSY */
	SUCCEEDS(ibv_destroy_rwq_ind_table, (table), == 0);
	SUCCEEDS(ibv_destroy_wq, (wq), == 0);
}

static void flows(void)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = {.num_of_specs = 1, .port = PORT, .size = sizeof(rule)}, .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)}};
	struct ibv_flow *flow;
	struct end raw;

	FAILS_NULL(ibv_create_flow_action_esp, (ctx, &(struct ibv_flow_action_esp_attr){0}));
	FAILS_NULL(ibv_create_flow, (e.qp, &rule.attr));
	raw_open(&raw, ctx);
	flow = SUCCEEDS(ibv_create_flow, (raw.qp, &rule.attr), != NULL);
	FAILS_ERRNO(ibv_destroy_qp, (raw.qp)); /* EBUSY */
	SUCCEEDS(ibv_destroy_flow, (flow), == 0);
	end_close(&raw, 1);
}

static void others(void)
{
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {2, 3}};
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 1 << 30};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	SUCCEEDS(ibv_modify_cq, (e.cq, &moderate), == 0);
	moderate.attr_mask = 1 << 20;
	FAILS_ERRNO(ibv_modify_cq, (e.cq, &moderate));
	SUCCEEDS(ibv_modify_qp_rate_limit, (e.qp, &limit), == 0);
	limit.comp_mask = 1;
	FAILS_ERRNO(ibv_modify_qp_rate_limit, (e.qp, &limit));
	SUCCEEDS(ibv_query_rt_values_ex, (ctx, &values), == 0);
	values.comp_mask = 1 << 20;
	FAILS_ERRNO(ibv_query_rt_values_ex, (ctx, &values));
}

int main(void)
{
	ctx = open_loopback();
	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	to_init(e.qp);
	to_rtr(e.qp, e.qp->qp_num);
	to_rts(e.qp);
	device_memory();
	regions();
	counters();
	others();
	if (wrong || failures)
		return 1;
	need_cap_net_raw();
	work_queues();
	flows();
	return wrong || failures;
}
