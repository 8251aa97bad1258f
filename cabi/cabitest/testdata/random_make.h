/* SPDX-License-Identifier: BSD-2-Clause */
/* How random_calls.c makes objects. */
#ifndef TEST_RANDOM_MAKE_H
#define TEST_RANDOM_MAKE_H

#include "random.h"

#include <fcntl.h>

static void make_pd(void)
{
	keep(PD, ibv_alloc_pd(context()));
}

static void make_mr(void)
{
	struct place *pd = use(PD);
	uint8_t *at = area(below(AREAS)) + below(AREA);
	size_t length = 1 + below(AREA);
	int access = one_in(10) ? (int)any() : (int)(any() & (uint32_t)ALL_ACCESS) | IBV_ACCESS_LOCAL_WRITE;

	if (at + length > memory + (size_t)AREAS * (AREA + GUARD))
		length = 1;
	for (int i = 0; i <= AREAS; i++) /* never a guard, which are in the way */
		if (at < memory + (size_t)i * (AREA + GUARD) + GUARD && at + length > memory + (size_t)i * (AREA + GUARD))
			length = 1;
	if (one_in(20)) {
		at = passing;
		length = GUARD;
	} else if (one_in(30)) {
		at = (uint8_t *)(uintptr_t)number(4096); /* nothing is there */
	} else if (one_in(30)) {
		length = SIZE_MAX - number(100);
	}
	if (pd && one_in(6))
		keep(MR, ibv_reg_mr_iova2(object(pd), at, length, number(1 << 20), (unsigned)access));
	else if (pd)
		keep(MR, ibv_reg_mr(object(pd), at, length, access));
	done(pd);
}

static void make_mw(void)
{
	struct place *pd = use(PD);

	if (pd)
		keep(MW, ibv_alloc_mw(object(pd), (enum ibv_mw_type)number(4)));
	done(pd);
}

static void make_channel(void)
{
	struct ibv_comp_channel *c = ibv_create_comp_channel(context());

	if (c)
		MUST(fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0);
	keep(CHANNEL, c);
}

static void make_cq(void)
{
	struct place *channel = one_in(2) ? use(CHANNEL) : NULL;
	struct ibv_comp_channel *c = object(channel);
	struct ibv_cq_init_attr_ex attr = {.cqe = number(200) & 0xffff, .channel = c, .comp_vector = one_in(20) ? any() : 0};
	struct ibv_context *ctx = c && !one_in(10) ? c->context : context();

	if (one_in(2)) {
		attr.wc_flags = one_in(4) ? any() : IBV_WC_STANDARD_FLAGS;
		keep(CQX, ibv_create_cq_ex(ctx, &attr));
	} else {
		keep(CQ, ibv_create_cq(ctx, (int)attr.cqe, &attr, c, (int)attr.comp_vector));
	}
	done(channel);
}

/* A queue of either kind. */
static struct ibv_cq *use_cq(struct place **p)
{
	enum kind kind = one_in(3) ? CQX : CQ;

	*p = use(kind);
	return !*p ? NULL : kind == CQX ? ibv_cq_ex_to_cq(object(*p)) : object(*p);
}

static void make_srq(void)
{
	struct place *pd = use(PD), *xrcd = use(XRCD), *p;
	struct ibv_cq *cq = use_cq(&p);
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = number(64) & 0xffff, .max_sge = number(4), .srq_limit = number(4)}, .pd = object(pd), .cq = cq, .xrcd = object(xrcd)};

	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	attr.srq_type = one_in(2) && cq && xrcd ? IBV_SRQT_XRC : one_in(3) && cq ? IBV_SRQT_TM : IBV_SRQT_BASIC;
	if (attr.srq_type == IBV_SRQT_XRC)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD;
	if (attr.srq_type == IBV_SRQT_TM) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
		attr.tm_cap = (struct ibv_tm_cap){.max_num_tags = number(64), .max_ops = number(64)};
	}
	if (pd)
		keep(SRQ, ibv_create_srq_ex(((struct ibv_pd *)object(pd))->context, &attr));
	done(pd), done(xrcd), done(p);
}

static void make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	if (one_in(10))
		attr.fd = (int)number(1 << 20) | 1 << 19;
	keep(XRCD, ibv_open_xrcd(context(), &attr));
}

static void make_qp(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
	struct place *pd = use(PD), *srq = one_in(4) ? use(SRQ) : NULL, *xrcd = use(XRCD), *s, *r;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = one_in(20) ? (enum ibv_qp_type)number(20) : types[below(sizeof(types) / sizeof(types[0]))],
		.cap = {number(64) & 0xffff, number(64) & 0xffff, number(5), number(5), number(100)},
		.sq_sig_all = (int)below(2), .pd = object(pd), .srq = object(srq), .xrcd = object(xrcd), .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_context *ctx = context();

	attr.send_cq = use_cq(&s);
	attr.recv_cq = use_cq(&r);
	if (attr.qp_type == IBV_QPT_XRC_RECV)
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	if (one_in(3)) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = one_in(4) ? any() : IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	}
	if (pd && !one_in(20))
		ctx = attr.pd->context;
	if (!one_in(20) || (attr.pd && attr.send_cq && attr.recv_cq))
		keep(QP, ibv_create_qp_ex(ctx, &attr));
	done(pd), done(srq), done(xrcd), done(s), done(r);
}

static struct ibv_ah_attr some_address(struct ibv_context *ctx)
{
	struct ibv_ah_attr a = address(ctx);

	if (one_in(6)) {
		a.grh.sgid_index = (uint8_t)any();
		a.grh.dgid.raw[below(16)] ^= (uint8_t)any();
		a.port_num = (uint8_t)number(3);
		a.is_global = (uint8_t)below(3);
	}
	return a;
}

static void make_ah(void)
{
	struct place *pd = use(PD);

	if (pd) {
		struct ibv_ah_attr attr = some_address(((struct ibv_pd *)object(pd))->context);

		keep(AH, ibv_create_ah(object(pd), &attr));
	}
	done(pd);
}

#endif
