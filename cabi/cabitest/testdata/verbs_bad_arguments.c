/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of bad arguments and the errno of each, by the man pages or, where they are silent, the
 * kernel's own checks. A refused call changes nothing.
 */
#include "loop.h"

#include <sys/mman.h>

#define LENGTH(table) (sizeof(table) / sizeof((table)[0]))

static struct ibv_context *ctx;
static struct ibv_device_attr dev;

/* Says which row is not as it is to be. */
static void expect(const char *call, const char *row, int got, int want)
{
	if (got != want)
		failed(__FILE__, __LINE__, "%s, %s: %d (%s), want %d (%s)", call, row, got, strerror(got), want, strerror(want));
}

/* The errno of a call that makes an object, which is then given back. */
#define ERRNO_OF(object, give_back)                                                                                    \
	({                                                                                                             \
		errno = 0;                                                                                             \
		__auto_type made_ = (object);                                                                          \
		int err_ = made_ ? 0 : errno;                                                                          \
		if (made_)                                                                                             \
			EQUAL(give_back(made_), 0);                                                                    \
		err_;                                                                                                  \
	})

static void ports_and_indices(void)
{
	static const struct {
		const char *row;
		int port, index, gid, pkey;
	} table[] = {
		{"all is well", 1, 0, 0, 0},
		{"port 0", 0, 0, EINVAL, EINVAL},
		{"port 2", 2, 0, EINVAL, EINVAL},
		{"port 255", 255, 0, EINVAL, EINVAL},
		{"index -1", 1, -1, EINVAL, EINVAL},
		{"index past the end", 1, 256, EINVAL, EINVAL},
		{"a large index", 1, 0x7fffffff, EINVAL, EINVAL},
	};
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	for (size_t i = 0; i < LENGTH(table); i++) {
		errno = 0;
		expect("ibv_query_gid", table[i].row, ibv_query_gid(ctx, table[i].port, table[i].index, &gid) ? errno : 0, table[i].gid);
		errno = 0;
		expect("ibv_query_pkey", table[i].row, ibv_query_pkey(ctx, table[i].port, table[i].index, &pkey) ? errno : 0,
		       table[i].pkey);
		memset(&port, 0xff, sizeof(port));
		expect("ibv_query_port", table[i].row, ibv_query_port(ctx, table[i].port, &port), table[i].port == 1 ? 0 : EINVAL);
		if (table[i].port == 1)
			CHECK(port.lid == 0 && port.sm_lid == 0 && port.lmc == 0 && port.port_cap_flags2 == 0);
		EQUAL(ibv_get_pkey_index(ctx, table[i].port, htobe16(0xffff)), table[i].port == 1 ? 0 : -1);
	}
}

static void addresses(struct end *e)
{
	const struct ibv_ah_attr good = address(ctx);
	struct {
		const char *row;
		int global, port, index, err;
	} table[] = {
		{"all is well", 1, 1, good.grh.sgid_index, 0},
		{"without a GRH", 0, 1, good.grh.sgid_index, EINVAL},
		{"port 0", 1, 0, good.grh.sgid_index, EINVAL},
		{"port 2", 1, 2, good.grh.sgid_index, EINVAL},
		{"an index that is free", 1, 1, 200, EINVAL},
		{"the last index", 1, 1, 255, EINVAL},
	};

	for (size_t i = 0; i < LENGTH(table); i++) {
		struct ibv_ah_attr attr = good;

		attr.is_global = (uint8_t)table[i].global;
		attr.port_num = (uint8_t)table[i].port;
		attr.grh.sgid_index = (uint8_t)table[i].index;
		expect("ibv_create_ah", table[i].row, ERRNO_OF(ibv_create_ah(e->pd, &attr), ibv_destroy_ah), table[i].err);
	}
	REFUSED(ibv_create_ah(NULL, (struct ibv_ah_attr *)&good), EINVAL);
	REFUSED(ibv_create_ah(e->pd, NULL), EINVAL);
}

static void shared_receive_queues(struct end *e)
{
	const struct {
		const char *row;
		uint32_t wr, sge;
		int err;
	} table[] = {
		{"all is well", 10, 1, 0},
		{"all that there is", (uint32_t)dev.max_srq_wr, (uint32_t)dev.max_srq_sge, 0},
		{"max_wr 0", 0, 1, EINVAL},
		{"max_wr past the limit", (uint32_t)dev.max_srq_wr + 1, 1, EINVAL},
		{"max_wr of all ones", 0xffffffff, 1, EINVAL},
		{"max_sge past the limit", 10, (uint32_t)dev.max_srq_sge + 1, EINVAL},
		{"max_sge of all ones", 10, 0xffffffff, EINVAL},
	};
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex;
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;

	for (size_t i = 0; i < LENGTH(table); i++) {
		struct ibv_srq_init_attr one = {.attr = {.max_wr = table[i].wr, .max_sge = table[i].sge}};

		expect("ibv_create_srq", table[i].row, ERRNO_OF(ibv_create_srq(e->pd, &one), ibv_destroy_srq), table[i].err);
	}
	REFUSED(ibv_create_srq(NULL, &init), EINVAL);
	REFUSED(ibv_create_srq(e->pd, NULL), EINVAL);
	ex = (struct ibv_srq_init_attr_ex){.attr = init.attr, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_BASIC};
	REFUSED(ibv_create_srq_ex(ctx, &ex), EINVAL); /* no domain */
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.pd = e->pd;
	ex.srq_type = IBV_SRQT_TM;
	REFUSED(ibv_create_srq_ex(ctx, &ex), EINVAL); /* neither limits nor a completion queue */
	ex.srq_type = (enum ibv_srq_type)9;
	REFUSED(ibv_create_srq_ex(ctx, &ex), EINVAL);
	ex.srq_type = IBV_SRQT_BASIC;
	ex.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
	REFUSED(ibv_create_srq_ex(ctx, &ex), EOPNOTSUPP);

	MUST(srq = ibv_create_srq(e->pd, &init));
	const struct {
		const char *row;
		uint32_t wr, limit;
		int mask, err;
	} changes[] = {
		{"nothing", 0, 0, 0, 0},
		{"an unknown attribute", 16, 1, 1 << 4, EINVAL},
		{"a limit past the size", 16, init.attr.max_wr + 1, IBV_SRQ_LIMIT, EINVAL},
		{"a size of 0", 0, 0, IBV_SRQ_MAX_WR, EINVAL},
		{"a size past the device's", (uint32_t)dev.max_srq_wr + 1, 0, IBV_SRQ_MAX_WR, EINVAL},
		{"a good limit with a bad size", 0, 1, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, EINVAL},
	};

	for (size_t i = 0; i < LENGTH(changes); i++) {
		attr = (struct ibv_srq_attr){.max_wr = changes[i].wr, .srq_limit = changes[i].limit};
		expect("ibv_modify_srq", changes[i].row, ibv_modify_srq(srq, &attr, changes[i].mask), changes[i].err);
	}
	memset(&attr, 0xff, sizeof(attr));
	EQUAL(ibv_query_srq(srq, &attr), 0);
	EQUAL(attr.max_wr, init.attr.max_wr);
	EQUAL(attr.srq_limit, 0);
	/* Fewer than the outstanding ones. */
	for (int i = 0; i < 16; i++) {
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)i}, *bad;

		EQUAL(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	attr.max_wr = 4;
	EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	EQUAL(ibv_query_srq(srq, NULL), EINVAL);
	EQUAL(ibv_modify_srq(srq, NULL, IBV_SRQ_LIMIT), EINVAL);
	EQUAL(ibv_destroy_srq(srq), 0);
}

static void completion_queues(void)
{
	const struct {
		const char *row;
		uint32_t cqe, vector, comp_mask, flags;
		uint64_t wc_flags;
		int err;
	} table[] = {
		{"all is well", 10, 0, 0, 0, IBV_WC_STANDARD_FLAGS, 0},
		{"cqe 0", 0, 0, 0, 0, 0, EINVAL},
		{"cqe past the limit", (uint32_t)dev.max_cqe + 1, 0, 0, 0, 0, EINVAL},
		{"cqe of all ones", 0xffffffff, 0, 0, 0, 0, EINVAL},
		{"a vector past the last", 10, (uint32_t)ctx->num_comp_vectors, 0, 0, 0, EINVAL},
		{"a VLAN", 10, 0, 0, 0, IBV_WC_EX_WITH_CVLAN, EOPNOTSUPP},
		{"an unknown field", 10, 0, 0, 0, 1ULL << 40, EOPNOTSUPP},
		{"an unknown attribute", 10, 0, 1u << 30, 0, 0, EINVAL},
		{"an unknown flag", 10, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, 1u << 30, 0, EOPNOTSUPP},
		{"a parent domain that is none", 10, 0, IBV_CQ_INIT_ATTR_MASK_PD, 0, 0, EINVAL},
	};
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_cq *cq;

	for (size_t i = 0; i < LENGTH(table); i++) {
		struct ibv_cq_init_attr_ex one = {.cqe = table[i].cqe,
						  .comp_vector = table[i].vector,
						  .comp_mask = table[i].comp_mask,
						  .flags = table[i].flags,
						  .wc_flags = table[i].wc_flags};

		errno = 0;
		struct ibv_cq_ex *made = ibv_create_cq_ex(ctx, &one);

		expect("ibv_create_cq_ex", table[i].row, made ? 0 : errno, table[i].err);
		if (made)
			EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(made)), 0);
	}
	MUST(cq = ibv_create_cq(ctx, 4, NULL, NULL, 0));
	attr.attr_mask = IBV_CQ_ATTR_RESERVED;
	EQUAL(ibv_modify_cq(cq, &attr), EINVAL);
	EQUAL(ibv_modify_cq(cq, NULL), EINVAL);
	EQUAL(ibv_req_notify_cq(cq, 0), 0);
	EQUAL(ibv_resize_cq(NULL, 4), EINVAL);
	EQUAL(ibv_destroy_cq(cq), 0);
}

static void regions(struct end *e)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const struct {
		const char *row;
		int access, err;
	} table[] = {
		{"none", 0, 0},
		{"local write", IBV_ACCESS_LOCAL_WRITE, 0},
		{"remote write alone", IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{"remote atomic alone", IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{"remote read alone", IBV_ACCESS_REMOTE_READ, 0},
		{"unknown, required", all | 1 << 14, EINVAL},
		{"unknown, optional", all | 1 << 25, 0},
		{"on demand", all | IBV_ACCESS_ON_DEMAND, 0},
		{"on demand, remote write alone", IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND, EINVAL},
	};
	char *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	for (size_t i = 0; i < LENGTH(table); i++)
		expect("ibv_reg_mr", table[i].row, ERRNO_OF(ibv_reg_mr(e->pd, e->buf, 100, table[i].access), ibv_dereg_mr), table[i].err);
	MUST(hole != MAP_FAILED);
	/* Memory that nobody can read is refused as the kernel refuses to pin it. */
	REFUSED(ibv_reg_mr(e->pd, hole, 8192, all), EFAULT);
	munmap(hole, 8192);
	REFUSED(ibv_reg_mr(e->pd, hole, 8192, all), EFAULT);
	/* Around the end of the address space. */
	REFUSED(ibv_reg_mr(e->pd, e->buf, SIZE_MAX, all), EINVAL);
	REFUSED(ibv_reg_mr(e->pd, (void *)(UINTPTR_MAX - 10), 100, all), EINVAL);

	MUST(pd = ibv_alloc_pd(ctx));
	MUST(mr = ibv_reg_mr(e->pd, e->buf, 100, all));
	const struct {
		const char *row;
		int flags;
		struct ibv_pd *pd;
		void *addr;
		size_t length;
		int access;
	} changes[] = {
		{"nothing", 0, pd, e->buf, 100, 0},
		{"an unknown flag", 1 << 7, pd, e->buf, 100, 0},
		{"no domain", IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0},
		{"no memory", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0},
		{"memory of no length", IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buf, 0, 0},
		{"remote write alone", IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE},
		{"access that is not to change", IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, all},
	};

	for (size_t i = 0; i < LENGTH(changes); i++) {
		errno = 0;
		expect("ibv_rereg_mr", changes[i].row,
		       ibv_rereg_mr(mr, changes[i].flags, changes[i].pd, changes[i].addr, changes[i].length, changes[i].access),
		       IBV_REREG_MR_ERR_INPUT);
		EQUAL(errno, EINVAL);
		CHECK(mr->pd == e->pd && mr->addr == e->buf && mr->length == 100);
	}
	EQUAL(ibv_dealloc_pd(pd), 0);
	EQUAL(ibv_dereg_mr(mr), 0);
}

/* An object in use cannot go. */
static void busy(struct end *e)
{
	struct ibv_ah_attr ah_attr = address(ctx);
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_comp_channel *channel;
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp_init_attr_ex init = end_init(e, IBV_QPT_UD);

	MUST(pd = ibv_alloc_pd(ctx));
	MUST(mr = ibv_reg_mr(pd, e->buf, 100, 0));
	EQUAL(ibv_dealloc_pd(pd), EBUSY);
	EQUAL(ibv_dereg_mr(mr), 0);
	MUST(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	EQUAL(ibv_dealloc_pd(pd), EBUSY);
	EQUAL(ibv_dealloc_mw(mw), 0);
	MUST(ah = ibv_create_ah(pd, &ah_attr));
	EQUAL(ibv_dealloc_pd(pd), EBUSY);
	EQUAL(ibv_destroy_ah(ah), 0);
	MUST(srq = ibv_create_srq(pd, &srq_init));
	EQUAL(ibv_dealloc_pd(pd), EBUSY);
	MUST(channel = ibv_create_comp_channel(ctx));
	MUST(cq = ibv_create_cq(ctx, 4, NULL, channel, 0));
	EQUAL(ibv_destroy_comp_channel(channel), EBUSY);
	init.pd = pd;
	init.srq = srq;
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = 2;
	MUST(e->qp = ibv_create_qp_ex(ctx, &init));
	EQUAL(ibv_dealloc_pd(pd), EBUSY);
	EQUAL(ibv_destroy_srq(srq), EBUSY);
	EQUAL(ibv_destroy_cq(cq), EBUSY);

	/* Groups: attaching twice is once, and an attached group stays. */
	to_init(e->qp);
	EQUAL(ibv_detach_mcast(e->qp, &group, 0), EINVAL);
	EQUAL(ibv_attach_mcast(e->qp, &group, 0), 0);
	EQUAL(ibv_attach_mcast(e->qp, &group, 0), 0);
	EQUAL(ibv_destroy_qp(e->qp), EBUSY);
	EQUAL(ibv_detach_mcast(e->qp, &group, 0), 0);
	EQUAL(ibv_detach_mcast(e->qp, &group, 0), EINVAL);
	EQUAL(ibv_destroy_qp(e->qp), 0);
	end_qp(e, IBV_QPT_RC);
	EQUAL(ibv_attach_mcast(e->qp, &group, 0), EINVAL);
	EQUAL(ibv_detach_mcast(e->qp, &group, 0), EINVAL);
	EQUAL(ibv_destroy_qp(e->qp), 0);
	e->qp = NULL;

	EQUAL(ibv_destroy_srq(srq), 0);
	EQUAL(ibv_destroy_cq(cq), 0);
	EQUAL(ibv_destroy_comp_channel(channel), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

/* From each state of each type: where there is no way is EINVAL, and the state stays. */
static void transitions(struct end *e)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	static const char way[7][7] = {
		/* to     RESET INIT RTR RTS SQD SQE ERR */
		[IBV_QPS_RESET] = {1, 1, 0, 0, 0, 0, 1},
		[IBV_QPS_INIT] = {1, 1, 1, 0, 0, 0, 1},
		[IBV_QPS_RTR] = {1, 0, 0, 1, 0, 0, 1},
		[IBV_QPS_RTS] = {1, 0, 0, 1, 1, 0, 1},
		[IBV_QPS_ERR] = {1, 0, 0, 0, 0, 0, 1},
	};

	for (size_t t = 0; t < LENGTH(types); t++)
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
				struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)to};
				struct ibv_qp_attr got;
				struct ibv_qp_init_attr init;
				int err;

				if (from == IBV_QPS_SQD || from == IBV_QPS_SQE || way[from][to])
					continue;
				end_qp(e, types[t]);
				if (from == IBV_QPS_ERR) {
					struct ibv_qp_attr fail = {.qp_state = IBV_QPS_ERR};

					EQUAL(ibv_modify_qp(e->qp, &fail, IBV_QP_STATE), 0);
				} else {
					if (from >= IBV_QPS_INIT)
						to_init(e->qp);
					if (from >= IBV_QPS_RTR)
						to_rtr(e->qp, e->qp->qp_num);
					if (from >= IBV_QPS_RTS)
						to_rts(e->qp);
				}
				err = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
				if (err != EINVAL)
					failed(__FILE__, __LINE__, "type %d from state %d to %d: %d", types[t], from, to, err);
				EQUAL(e->qp->state, from);
				EQUAL(ibv_query_qp(e->qp, &got, IBV_QP_STATE, &init), 0);
				EQUAL(got.qp_state, from);
				EQUAL(ibv_destroy_qp(e->qp), 0);
				e->qp = NULL;
			}
}

/* Each attribute that a transition needs, left out; each that it does not take; and bad values. */
static void attributes(struct end *e)
{
	static const int needed[] = {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS};
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
	struct ibv_qp_attr attr;

	end_qp(e, IBV_QPT_RC);
	for (size_t i = 0; i < LENGTH(needed); i++) {
		attr = init;
		EQUAL(ibv_modify_qp(e->qp, &attr, init_mask & ~needed[i]), EINVAL);
	}
	attr = init;
	EQUAL(ibv_modify_qp(e->qp, &attr, init_mask | IBV_QP_QKEY), EINVAL);
	EQUAL(ibv_modify_qp(e->qp, &attr, init_mask | IBV_QP_AV), EINVAL);
	for (int port = 0; port <= 2; port += 2) {
		attr = init;
		attr.port_num = (uint8_t)port;
		EQUAL(ibv_modify_qp(e->qp, &attr, init_mask), EINVAL);
	}
	attr = init;
	attr.pkey_index = 1;
	EQUAL(ibv_modify_qp(e->qp, &attr, init_mask), EINVAL);
	EQUAL(e->qp->state, IBV_QPS_RESET);
	to_init(e->qp);

	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER;
	const struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
					.path_mtu = IBV_MTU_1024,
					.dest_qp_num = e->qp->qp_num,
					.max_dest_rd_atomic = 1,
					.min_rnr_timer = 1,
					.ah_attr = address(ctx)};

	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
		if ((rtr_mask & bit) && bit != IBV_QP_STATE) {
			attr = rtr;
			EQUAL(ibv_modify_qp(e->qp, &attr, rtr_mask & ~bit), EINVAL);
		}
#define RTR_WITH(field, value)                                                                                         \
	do {                                                                                                           \
		attr = rtr;                                                                                            \
		attr.field = (value);                                                                                  \
		EQUAL(ibv_modify_qp(e->qp, &attr, rtr_mask), EINVAL);                                                  \
		EQUAL(e->qp->state, IBV_QPS_INIT);                                                                     \
	} while (0)
	RTR_WITH(path_mtu, (enum ibv_mtu)0);
	RTR_WITH(path_mtu, (enum ibv_mtu)6);
	RTR_WITH(max_dest_rd_atomic, 255);
	RTR_WITH(min_rnr_timer, 32);
	RTR_WITH(ah_attr.is_global, 0);
	RTR_WITH(ah_attr.port_num, 0);
	RTR_WITH(ah_attr.port_num, 2);
	RTR_WITH(ah_attr.grh.sgid_index, 200);
	to_rtr(e->qp, e->qp->qp_num);

	const int rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	const struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
		if ((rts_mask & bit) && bit != IBV_QP_STATE) {
			attr = rts;
			EQUAL(ibv_modify_qp(e->qp, &attr, rts_mask & ~bit), EINVAL);
		}
#define RTS_WITH(field, value)                                                                                         \
	do {                                                                                                           \
		attr = rts;                                                                                            \
		attr.field = (value);                                                                                  \
		EQUAL(ibv_modify_qp(e->qp, &attr, rts_mask), EINVAL);                                                  \
		EQUAL(e->qp->state, IBV_QPS_RTR);                                                                      \
	} while (0)
	RTS_WITH(timeout, 32);
	RTS_WITH(retry_cnt, 8);
	RTS_WITH(rnr_retry, 8);
	RTS_WITH(max_rd_atomic, 255);
	attr = rts;
	attr.cur_qp_state = IBV_QPS_RTS; /* it is in RTR */
	EQUAL(ibv_modify_qp(e->qp, &attr, rts_mask | IBV_QP_CUR_STATE), EINVAL);
	to_rts(e->qp);
	EQUAL(ibv_destroy_qp(e->qp), 0);
	e->qp = NULL;
}

/* A query writes its whole result, also fields without a value. */
static void outputs(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_device_attr_ex ex;

	end_qp(e, IBV_QPT_RC);
	memset(&attr, 0xff, sizeof(attr));
	memset(&init, 0xff, sizeof(init));
	EQUAL(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK(attr.dest_qp_num == 0 && attr.rq_psn == 0 && attr.alt_port_num == 0 && attr.rate_limit == 0 && attr.ah_attr.is_global == 0);
	CHECK(init.srq == NULL && init.qp_type == IBV_QPT_RC && init.send_cq == e->cq);
	memset(&ex, 0xff, sizeof(ex));
	EQUAL(ibv_query_device_ex(ctx, NULL, &ex), 0);
	CHECK(ex.comp_mask == 0 && ex.max_dm_size == 1 << 24 && ex.tso_caps.max_tso == 0 && ex.raw_packet_caps == 0 &&
	      ex.hca_core_clock == 1000000 && ex.completion_timestamp_mask == UINT64_MAX);
	EQUAL(ibv_destroy_qp(e->qp), 0);
	e->qp = NULL;
}

int main(void)
{
	struct end e;

	ctx = open_loopback();
	EQUAL(ibv_query_device(ctx, &dev), 0);
	end_open(&e, ctx, NULL);
	ports_and_indices();
	addresses(&e);
	shared_receive_queues(&e);
	completion_queues();
	regions(&e);
	busy(&e);
	transitions(&e);
	attributes(&e);
	outputs(&e);
	end_close(&e, 1);
	return finish(ctx);
}
