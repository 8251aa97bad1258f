/* SPDX-License-Identifier: BSD-2-Clause */
/* The uses that random_calls.c makes of objects. */
#ifndef TEST_RANDOM_USE_H
#define TEST_RANDOM_USE_H

#include "random.h"

/* An element in a region of some queue pair's domain, or anywhere, and its right or some key. */
static struct ibv_sge element(const struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = any(), .length = number(1000), .lkey = any()};

	if (!mr || wrong_in(8))
		return sge;
	sge.lkey = mr->lkey;
	sge.addr = (uintptr_t)mr->addr + (wild ? below(64) : 0);
	if (!wild && sge.length > mr->length)
		sge.length = (uint32_t)mr->length;
	return sge;
}

#define CHAIN 4
#define SGES 4

static void post_sends(struct ibv_qp *qp)
{
	struct place *mr = use_mr(qp->pd), *far = use_mr(qp->pd), *ah = use(AH), *mw = use(MW);
	struct ibv_mr *local = object(mr), *remote = object(far);
	struct ibv_send_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN][SGES];
	uint32_t n = 1 + below(CHAIN);

	memset(wr, 0, sizeof(wr));
	for (uint32_t i = 0; i < n; i++) {
		wr[i].next = i + 1 < n ? wr + i + 1 : NULL;
		wr[i].wr_id = any();
		wr[i].opcode = (enum ibv_wr_opcode)(wrong_in(8) ? number(30) : below(IBV_WR_ATOMIC_FETCH_AND_ADD + 1));
		wr[i].send_flags = wrong_in(20) ? any() : any() & (IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED);
		for (int j = 0; j < SGES; j++)
			sge[i][j] = element(local);
		wr[i].sg_list = sge[i];
		wr[i].num_sge = wrong_in(8) ? (int)number(10) : (int)below(2);
		if (wr[i].num_sge > SGES)
			wr[i].num_sge = one_in(2) ? -1 : 1 << 20; /* none is read */
		if (one_in(8) && local && local->length >= 64) {
			wr[i].send_flags |= IBV_SEND_INLINE;
			for (int j = 0; j < SGES; j++) /* read at once: it must be there */
				sge[i][j] = (struct ibv_sge){.addr = (uintptr_t)area(0), .length = number(64)};
		} else {
			wr[i].send_flags &= ~(unsigned)IBV_SEND_INLINE;
		}
		if (qp->qp_type == IBV_QPT_UD) {
			wr[i].wr.ud.ah = object(ah);
			wr[i].wr.ud.remote_qpn = number(1 << 24);
			wr[i].wr.ud.remote_qkey = QKEY;
			if (!ah)
				n = 0;
		} else if (wr[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = remote ? (((uintptr_t)remote->addr + 7) & ~UINT64_C(7)) + wrong_in(4) : any();
			wr[i].wr.atomic.rkey = remote && !wrong_in(8) ? remote->rkey : any();
		} else if (wr[i].opcode == IBV_WR_BIND_MW) {
			wr[i].bind_mw.mw = object(mw);
			wr[i].bind_mw.rkey = any();
			wr[i].bind_mw.bind_info.mr = local;
			if (!mw || !local)
				n = 0;
		} else {
			wr[i].wr.rdma.remote_addr = remote ? (uintptr_t)remote->addr + (wild ? below(64) : 0) : any();
			wr[i].wr.rdma.rkey = remote && !wrong_in(8) ? remote->rkey : any();
		}
	}
	if (n && ibv_post_send(qp, wr, &bad) && !(bad >= wr && bad < wr + n))
		failed(__FILE__, __LINE__, "bad_wr is none of the list's");
	done(mr), done(far), done(ah), done(mw);
}

/* Receives for a queue pair or, if qp is NULL, a shared queue. */
static void post_recvs(struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct place *mr = use_mr(qp ? qp->pd : srq->pd);
	struct ibv_sge sge[SGES] = {element(object(mr)), element(object(mr)), element(object(mr)), element(object(mr))};
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	int n = 1 + (int)below(CHAIN), err;

	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = any(), .next = i + 1 < n ? wr + i + 1 : NULL, .sg_list = sge,
					     .num_sge = wrong_in(8) ? (int)any() | 64 : (int)below(2)};
	err = qp ? ibv_post_recv(qp, wr, &bad) : ibv_post_srq_recv(srq, wr, &bad);
	if (err && !(bad >= wr && bad < wr + n))
		failed(__FILE__, __LINE__, "bad_wr is none of the list's");
	done(mr);
}

/* Operations on tags of a queue, which may match none. */
static void post_tags(struct ibv_srq *srq)
{
	static uint32_t handle; /* the last that was added, of any queue */
	struct place *mr = use_mr(srq->pd);
	struct ibv_sge sge[SGES] = {element(object(mr)), element(object(mr)), element(object(mr)), element(object(mr))};
	struct ibv_ops_wr wr[CHAIN], *bad = NULL;
	int n = 1 + (int)below(CHAIN), err;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		wr[i].next = i + 1 < n ? wr + i + 1 : NULL;
		wr[i].wr_id = any();
		wr[i].opcode = (enum ibv_ops_wr_opcode)(wrong_in(8) ? number(30) : below(IBV_WR_TAG_SYNC + 1));
		wr[i].flags = (int)(wrong_in(20) ? any() : below(4));
		wr[i].tm.unexpected_cnt = number(8);
		wr[i].tm.handle = one_in(2) ? handle : (uint32_t)any();
		wr[i].tm.add.sg_list = sge;
		wr[i].tm.add.num_sge = wrong_in(8) ? (int)any() | 64 : (int)below(SGES + 1);
		wr[i].tm.add.mask = below(2);
	}
	err = ibv_post_srq_ops(srq, wr, &bad);
	if (err && !(bad >= wr && bad < wr + n))
		failed(__FILE__, __LINE__, "bad_wr is none of the list's");
	if (!err && wr[0].opcode == IBV_WR_TAG_ADD)
		handle = wr[0].tm.handle;
	done(mr);
}

static void post_batch(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct place *mr = use_mr(qp->pd), *ah = use(AH);
	struct ibv_sge sge = element(object(mr));

	if (ex && (ah || qp->qp_type != IBV_QPT_UD)) {
		ibv_wr_start(ex);
		for (uint32_t n = below(CHAIN); n > 0; n--) {
			ex->wr_id = any();
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(ex);
			if (qp->qp_type == IBV_QPT_UD)
				ibv_wr_set_ud_addr(ex, object(ah), number(1 << 24), QKEY);
			ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
		}
		if (one_in(4))
			ibv_wr_abort(ex);
		else
			ibv_wr_complete(ex);
	}
	done(mr), done(ah);
}

/* Moves a queue pair on with attributes that are mostly right. */
static void modify(struct ibv_qp *qp)
{
	struct place *other = use(QP);
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)below(IBV_QPS_ERR + 1), .port_num = PORT, .qkey = QKEY,
				   .qp_access_flags = (unsigned)ALL_ACCESS & ~(unsigned)IBV_ACCESS_MW_BIND, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = other ? ((struct ibv_qp *)object(other))->qp_num : any(), .timeout = 8, .retry_cnt = 1,
				   .rnr_retry = 1, .min_rnr_timer = 1, .max_rd_atomic = 4, .max_dest_rd_atomic = 4};
	int mask = IBV_QP_STATE;

	attr.ah_attr = some_address(qp->context);
	switch (attr.qp_state) {
	case IBV_QPS_INIT:
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		break;
	case IBV_QPS_RTR:
		if (qp->qp_type != IBV_QPT_UD)
			mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		mask |= IBV_QP_SQ_PSN;
		if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		break;
	}
	if (one_in(10))
		mask ^= 1 << below(25);
	if (one_in(20)) {
		uint32_t *field = (uint32_t *)&attr + below(sizeof(attr) / sizeof(uint32_t));

		*field = any();
	}
	ibv_modify_qp(qp, &attr, mask);
	done(other);
}

/* Two queue pairs of a type are connected to each other, whatever they were. */
static void connect_two(struct ibv_qp *a)
{
	struct place *p = use(QP);
	struct ibv_qp *b = object(p), *of[2] = {a, b};

	for (int step = IBV_QPS_RESET; p && b->qp_type == a->qp_type && step <= IBV_QPS_RTS; step++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)step, .port_num = PORT, .qp_access_flags = 0xe,
						   .path_mtu = IBV_MTU_1024, .dest_qp_num = of[!i]->qp_num, .timeout = 8, .retry_cnt = 1,
						   .rnr_retry = 1, .min_rnr_timer = 1, .max_rd_atomic = 4, .max_dest_rd_atomic = 4};
			static const int masks[] = {
				[IBV_QPS_RESET] = IBV_QP_STATE,
				[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
			};

			attr.ah_attr = address(of[i]->context);
			ibv_modify_qp(of[i], &attr, masks[step]);
		}
	for (int i = 0; p && i < 8; i++) {
		post_recvs(b, NULL);
		post_sends(a);
	}
	done(p);
}

/* A queue pair that is in one of them is busy. */
#define GROUPS 2
static const union ibv_gid groups[GROUPS] = {{.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}},
					     {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 4}}};

static void call_qp(void)
{
	struct place *p = use(QP);
	struct ibv_qp *qp = object(p);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!p)
		return;
	switch (below(20)) {
	case 0:
		modify(qp);
		break;
	case 1:
	case 2:
		connect_two(qp);
		break;
	case 3:
		CHECK(fine(ibv_query_qp(qp, &attr, (int)any(), &init)));
		break;
	case 4:
		post_batch(qp);
		break;
	case 5: {
		union ibv_gid group = one_in(10) ? (union ibv_gid){.raw = {(uint8_t)any()}} : groups[below(GROUPS)];

		if (one_in(2) && group.raw[10])
			ibv_attach_mcast(qp, &group, 0);
		else
			ibv_detach_mcast(qp, &group, 0);
		break;
	}
	case 6:
	case 7:
	case 8:
		post_recvs(qp, NULL);
		break;
	default:
		post_sends(qp);
	}
	done(p);
}

static void call_cq(void)
{
	struct place *p;
	struct ibv_cq *cq = use_cq(&p);
	struct ibv_wc wc[16];
	int n;

	if (!p)
		return;
	switch (below(8)) {
	case 0:
		ibv_req_notify_cq(cq, (int)number(3));
		break;
	case 1:
		ibv_resize_cq(cq, (int)(number(300) & 0x8000ffff));
		break;
	default:
		n = ibv_poll_cq(cq, one_in(20) ? -(int)below(3) : (int)below(17), wc);
		if (n > 16)
			failed(__FILE__, __LINE__, "poll says %d of 16", n);
		for (int i = 0; i < n; i++)
			succeeded += wc[i].status == IBV_WC_SUCCESS;
	}
	done(p);
}

static void call_cqx(void)
{
	struct place *p = use(CQX);
	struct ibv_poll_cq_attr attr = {.comp_mask = one_in(20)};
	struct ibv_cq_ex *cq = object(p);

	if (p && !ibv_start_poll(cq, &attr)) {
		do {
			succeeded += cq->status == IBV_WC_SUCCESS;
			ibv_wc_read_opcode(cq);
			ibv_wc_read_byte_len(cq);
			ibv_wc_read_qp_num(cq);
		} while (one_in(2) && !ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	done(p);
}

static void call_srq(void)
{
	struct place *p = use(SRQ);
	struct ibv_srq_attr attr = {.max_wr = number(64) & 0xffff, .srq_limit = number(4)};
	uint32_t num;

	if (!p)
		return;
	switch (below(6)) {
	case 5:
		post_tags(object(p));
		break;
	case 0:
		ibv_modify_srq(object(p), &attr, (int)below(5));
		break;
	case 1:
		CHECK(fine(ibv_query_srq(object(p), &attr)));
		ibv_get_srq_num(object(p), &num);
		break;
	default:
		post_recvs(NULL, object(p));
	}
	done(p);
}

static void call_mr(void)
{
	struct place *p = use(MR), *pd = use(PD), *q = use(QP), *w = use(MW);

	if (p && pd && one_in(3))
		ibv_rereg_mr(object(p), (int)below(9), object(pd), area(below(AREAS)), 1 + below(AREA), (int)(any() & (uint32_t)ALL_ACCESS));
	if (p && q && w) {
		struct ibv_mw_bind bind = {.wr_id = any(), .send_flags = IBV_SEND_SIGNALED};

		bind.bind_info = (struct ibv_mw_bind_info){.mr = object(p), .addr = (uintptr_t)area(0) + below(AREA), .length = number(100), .mw_access_flags = number(64)};
		ibv_bind_mw(object(q), object(w), &bind);
	}
	done(p), done(pd), done(q), done(w);
}

static void take_events(void)
{
	struct place *p = use(CHANNEL);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *arg;

	while (p && ibv_get_cq_event(object(p), &cq, &arg) == 0)
		ibv_ack_cq_events(cq, 1);
	done(p);
	for (struct ibv_context *ctx = context(); ibv_get_async_event(ctx, &event) == 0;)
		ibv_ack_async_event(&event);
}

static void query(void)
{
	struct ibv_context *ctx = context();
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	ibv_query_gid(ctx, (uint8_t)number(3), (int)number(300), &gid);
	ibv_query_pkey(ctx, (uint8_t)number(3), (int)number(3), &pkey);
	ibv_query_port(ctx, (uint8_t)number(3), &port);
	EQUAL(ibv_query_device_ex(ctx, NULL, &dev), 0);
	if (one_in(10))
		EQUAL(ibv_close_device(open_loopback()), 0);
}

/* Takes memory away that may be registered and in use, and puts other memory there. */
static void remap(void)
{
	if (!one_in(20))
		return;
	MUST(mmap(passing, GUARD, one_in(2) ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == passing);
}

#endif
