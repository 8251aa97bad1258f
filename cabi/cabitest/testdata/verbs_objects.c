/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects and their users: domains, granted sizes, states, EBUSY, resizing. */
#include "loop.h"

#include <fcntl.h>

static void domains(struct ibv_context *ctx)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr attr = {0};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_qp_init_attr_ex init;
	struct ibv_cq_ex *cq;
	struct ibv_td *td;
	struct ibv_pd *parent;
	struct ibv_mr *mr;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	MUST(td = ibv_alloc_td(ctx, &td_attr));
	td_attr.comp_mask = 1;
	REFUSED(ibv_alloc_td(ctx, &td_attr), EOPNOTSUPP);
	REFUSED(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.pd = a.pd;
	attr.td = td;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS; /* of which there are none */
	REFUSED(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.comp_mask = 1 << 9;
	REFUSED(ibv_alloc_parent_domain(ctx, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	attr.pd_context = &attr;
	MUST(parent = ibv_alloc_parent_domain(ctx, &attr));
	CHECK(parent->context == ctx);
	EQUAL(ibv_dealloc_td(td), EBUSY);
	EQUAL(ibv_dealloc_pd(a.pd), EBUSY);

	/* It is interchangeable with its domain: a region of one, a queue pair of the other. */
	cq_attr.parent_domain = parent;
	MUST(cq = ibv_create_cq_ex(ctx, &cq_attr));
	EQUAL(ibv_dealloc_pd(parent), EBUSY);
	MUST(mr = ibv_reg_mr(a.pd, a.buf, 100, ALL_ACCESS));
	init = end_init(&a, IBV_QPT_RC);
	init.pd = parent;
	init.send_cq = ibv_cq_ex_to_cq(cq);
	MUST(a.qp = ibv_create_qp_ex(ctx, &init));
	CHECK(a.qp->pd == parent);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	EQUAL(post_recv(&b, 1, 0, 10), 0);
	EQUAL(post_send(&a, 2, 0, 1), 0);
	WANT_WC(ibv_cq_ex_to_cq(cq), 2, IBV_WC_SUCCESS);
	EQUAL(ibv_destroy_qp(a.qp), 0);
	a.qp = NULL;
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	EQUAL(ibv_dealloc_pd(parent), 0);
	EQUAL(ibv_dealloc_td(td), 0);
	unpair(&a, &b);
}

static int allocated, freed, by_default, exhausted;

static void *their_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t resource)
{
	void *p;

	(void)resource;
	CHECK(pd && context == &allocated);
	if (exhausted)
		return NULL;
	if (by_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	allocated++;
	p = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	memset(p, 0, size);
	return p;
}

static void their_free(struct ibv_pd *pd, void *context, void *p, uint64_t resource)
{
	(void)resource;
	CHECK(pd && context == &allocated);
	freed++;
	free(p);
}

/* The rings of completion queues come from a parent domain's allocators. */
static void allocators(struct ibv_context *ctx)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = their_alloc, .free = their_free, .pd_context = &allocated};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 100, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_cq_ex *cq;
	struct end a, b;

	end_open(&b, ctx, NULL);
	attr.pd = b.pd;
	MUST(cq_attr.parent_domain = ibv_alloc_parent_domain(ctx, &attr));
	MUST(cq = ibv_create_cq_ex(ctx, &cq_attr));
	EQUAL(allocated, 1);
	end_open(&a, ctx, ibv_cq_ex_to_cq(cq));
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	EQUAL(post_recv(&b, 1, 0, 10), 0);
	EQUAL(post_send(&a, 2, 0, 1), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	EQUAL(ibv_resize_cq(a.cq, 1000), 0);
	EQUAL(allocated, 2);
	EQUAL(freed, 1);
	by_default = 1;
	EQUAL(ibv_resize_cq(a.cq, 100), 0);
	EQUAL(freed, 2);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	exhausted = 1;
	EQUAL(ibv_resize_cq(a.cq, 1000), ENOMEM);
	REFUSED(ibv_create_cq_ex(ctx, &cq_attr), ENOMEM);
	EQUAL(ibv_dealloc_pd(cq_attr.parent_domain), EBUSY);
	end_close(&a, 1);
	EQUAL(ibv_dealloc_pd(cq_attr.parent_domain), 0);
	end_close(&b, 1);
	EQUAL(allocated, freed);
}

static void busy(struct ibv_context *ctx)
{
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(ibv_destroy_cq(a.cq), EBUSY);
	EQUAL(ibv_dealloc_pd(a.pd), EBUSY);
	unpair(&a, &b);
}

static void queue_sizes(struct ibv_context *ctx)
{
	struct ibv_device_attr dev;
	struct ibv_cq *cq;

	EQUAL(ibv_query_device(ctx, &dev), 0);
	EQUAL(dev.max_cqe & (dev.max_cqe - 1), 0);
	MUST(cq = ibv_create_cq(ctx, 5, ctx, NULL, 0));
	EQUAL(cq->cqe, 8);
	CHECK(cq->cq_context == ctx && cq->channel == NULL && cq->context == ctx);
	EQUAL(ibv_resize_cq(cq, 9), 0);
	EQUAL(cq->cqe, 16);
	EQUAL(ibv_resize_cq(cq, 0), EINVAL);
	EQUAL(ibv_resize_cq(cq, -1), EINVAL);
	EQUAL(ibv_resize_cq(cq, dev.max_cqe + 1), EINVAL);
	EQUAL(cq->cqe, 16);
	EQUAL(ibv_destroy_cq(cq), 0);
	REFUSED(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(ctx, -5, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(ctx, 1, NULL, NULL, -1), EINVAL);
	REFUSED(ibv_create_cq(ctx, 1, NULL, NULL, ctx->num_comp_vectors), EINVAL);
}

/* Completions that wait survive a resize, unless they do not fit. */
static void resize(struct ibv_context *ctx)
{
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < 10; i++) {
		EQUAL(post_recv(&b, i, 0, 10), 0);
		EQUAL(post_send(&a, i, 0, 1), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
	}
	WANT_WC(b.cq, 0, IBV_WC_SUCCESS);
	EQUAL(ibv_resize_cq(b.cq, 4), EINVAL);
	EQUAL(b.cq->cqe, 2 * DEPTH);
	EQUAL(ibv_resize_cq(b.cq, 1000), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	EQUAL(ibv_resize_cq(b.cq, 8), 0);
	for (int i = 2; i < 10; i++)
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
	unpair(&a, &b);
}

/* A queue that overruns says so when it is polled, and by an event. */
static void overrun(struct ibv_context *ctx)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct end a, b;
	int n, got = 0;

	MUST(cq = ibv_create_cq(ctx, 2, NULL, NULL, 0));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, cq);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	for (int i = 0; i < 4; i++)
		EQUAL(post_recv(&b, i, 0, 10), 0);
	for (int i = 0; i < 3; i++)
		EQUAL(post_send(&a, i, 0, 1), 0);
	do {
		MUST(readable(ctx->async_fd, PATIENCE_MS));
		MUST(ibv_get_async_event(ctx, &event) == 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == cq);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 1)
		got++;
	EQUAL(got, 2);
	CHECK(n < 0);
	end_close(&a, 1);
	end_close(&b, 0);
	EQUAL(ibv_destroy_cq(cq), 0);
}

/* RESET and destruction take a queue pair's completions out of its queues. */
static void forgotten(struct ibv_context *ctx)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct end a, b, c, d;
	struct ibv_wc wc;

	pair(&a, &b, ctx, IBV_QPT_RC);
	end_open(&c, ctx, b.cq);
	end_open(&d, ctx, NULL);
	end_qp(&c, IBV_QPT_RC);
	end_qp(&d, IBV_QPT_RC);
	connect_qps(c.qp, d.qp);
	for (int i = 0; i < 2; i++) {
		EQUAL(post_recv(&b, 10 + i, 0, 10), 0);
		EQUAL(post_recv(&c, 20 + i, 0, 10), 0);
		EQUAL(post_send(&a, i, 0, 1), 0);
		EQUAL(post_send(&d, i, 0, 1), 0);
		WANT_WC(a.cq, i, IBV_WC_SUCCESS);
		WANT_WC(d.cq, i, IBV_WC_SUCCESS);
	}
	EQUAL(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
	EQUAL(b.qp->state, IBV_QPS_RESET);
	WANT_WC(b.cq, 20, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 21, IBV_WC_SUCCESS);
	EQUAL(ibv_poll_cq(b.cq, 1, &wc), 0);
	end_close(&c, 0);
	end_close(&d, 1);
	unpair(&a, &b);
}

static void queue_pairs(struct ibv_context *ctx)
{
	struct ibv_qp_init_attr init, back;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct end e;

	end_open(&e, ctx, NULL);
	init = (struct ibv_qp_init_attr){.qp_context = &e, .send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1}};
	MUST(e.qp = ibv_create_qp(e.pd, &init));
	CHECK(init.cap.max_send_wr >= 3 && init.cap.max_recv_wr >= 5);
	CHECK(e.qp->qp_context == &e && e.qp->pd == e.pd && e.qp->send_cq == e.cq && e.qp->recv_cq == e.cq);
	CHECK(e.qp->context == ctx && !e.qp->srq && e.qp->qp_num > 1);
	EQUAL(e.qp->qp_type, IBV_QPT_RC);
	EQUAL(e.qp->state, IBV_QPS_RESET);
	EQUAL(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), EINVAL); /* not from RESET */
	EQUAL(e.qp->state, IBV_QPS_RESET);
	to_init(e.qp);
	EQUAL(e.qp->state, IBV_QPS_INIT);
	memset(&attr, 0xff, sizeof(attr));
	memset(&back, 0xff, sizeof(back));
	EQUAL(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &back), 0);
	EQUAL(attr.qp_state, IBV_QPS_INIT);
	EQUAL(attr.port_num, PORT);
	EQUAL(attr.dest_qp_num, 0);
	EQUAL(attr.alt_port_num, 0);
	EQUAL(back.sq_sig_all, 1);
	CHECK(back.qp_context == &e && back.send_cq == e.cq && back.recv_cq == e.cq && back.srq == NULL);
	EQUAL(back.cap.max_send_wr, init.cap.max_send_wr);
	EQUAL(back.qp_type, IBV_QPT_RC);
	end_close(&e, 1);
}

static void xrc_domains(struct ibv_context *ctx)
{
	struct ibv_xrcd_init_attr attr = {.fd = -1, .oflags = O_CREAT};
	struct ibv_qp_open_attr open = {0};
	struct ibv_device_attr device;
	struct ibv_xrcd *xrcd;

	REFUSED(ibv_open_xrcd(ctx, &attr), EINVAL);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | IBV_XRCD_INIT_ATTR_RESERVED;
	REFUSED(ibv_open_xrcd(ctx, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	EQUAL(ibv_query_device(ctx, &device), 0);
	if (!(device.device_cap_flags & IBV_DEVICE_XRC)) {
		REFUSED(ibv_open_xrcd(ctx, &attr), EOPNOTSUPP);
		return;
	}
	MUST(xrcd = ibv_open_xrcd(ctx, &attr));
	CHECK(xrcd->context == ctx);
	REFUSED(ibv_open_qp(ctx, &open), EINVAL);
	open = (struct ibv_qp_open_attr){.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = 0x777,
					 .xrcd = xrcd,
					 .qp_type = IBV_QPT_XRC_RECV};
	REFUSED(ibv_open_qp(ctx, &open), EINVAL); /* there is none of this number */
	EQUAL(ibv_close_xrcd(xrcd), 0);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	domains(ctx);
	allocators(ctx);
	busy(ctx);
	queue_sizes(ctx);
	resize(ctx);
	overrun(ctx);
	forgotten(ctx);
	queue_pairs(ctx);
	xrc_domains(ctx);
	return finish(ctx);
}
