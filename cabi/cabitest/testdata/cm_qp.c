/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of identifiers: with queues of the identifier's or of the application's own, and with
 * a shared receive queue. Others are in a domain of their own, or made by rdma_create_qp_ex with an
 * interface for posting. Each carries a message, and goes without the application's own objects.
 */
#include "cm.h"

#include <infiniband/verbs.h>

enum {
	OWN_CQS = 1,	/* both queues are the application's */
	OWN_SEND_CQ = 2, /* only the one for sending */
	OWN_PD = 4,
	OWN_SRQ = 8,	/* made by ibv_create_srq */
	ID_SRQ = 16,	/* made by rdma_create_srq */
	WITH_OPS = 32,	/* IBV_QP_INIT_ATTR_SEND_OPS_FLAGS */
};

/* The application's objects of an end, to be destroyed by it. */
struct end {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	char buf[16];
};

static void make(struct end *e, struct rdma_cm_id *id, unsigned how)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex ex;

	memset(e, 0, sizeof(*e));
	e->id = id;
	if (how & OWN_PD)
		CHECK((e->pd = ibv_alloc_pd(id->verbs)));
	if (how & (OWN_CQS | OWN_SEND_CQ)) {
		CHECK((e->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0)));
		attr.send_cq = e->cq;
		attr.recv_cq = how & OWN_CQS ? e->cq : NULL;
	}
	if (how & OWN_SRQ)
		CHECK((attr.srq = e->srq = ibv_create_srq(e->pd ? e->pd : id->pd, &srq)));
	if (how & ID_SRQ)
		CHECK(rdma_create_srq(id, e->pd, &srq) == 0 && id->srq && id->srq->pd == (e->pd ? e->pd : id->pd));
	if (how & WITH_OPS) {
		memset(&ex, 0, sizeof(ex));
		memcpy(&ex, &attr, sizeof(attr));
		ex.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | (e->pd ? IBV_QP_INIT_ATTR_PD : 0);
		ex.pd = e->pd;
		ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
		CHECK(rdma_create_qp_ex(id, &ex) == 0);
		CHECK(ex.cap.max_send_wr >= 8 && ex.pd == id->qp->pd);
	} else {
		CHECK(rdma_create_qp(id, e->pd, &attr) == 0);
		CHECK(attr.cap.max_send_wr >= 8);
		CHECK(attr.send_cq == id->qp->send_cq && attr.recv_cq == id->qp->recv_cq);
	}
	CHECK(id->qp->state == IBV_QPS_INIT && id->pd == id->qp->pd);
	CHECK(!e->pd || id->qp->pd == e->pd);
	CHECK(id->qp->srq == (how & ID_SRQ ? id->srq : e->srq));
	/* The identifier has the queues that were made for it, with their channels. */
	CHECK(id->qp->send_cq == (e->cq ? e->cq : id->send_cq) && !id->send_cq == !!e->cq && !id->send_cq_channel == !!e->cq);
	CHECK(id->qp->recv_cq == (how & OWN_CQS ? e->cq : id->recv_cq) && !id->recv_cq == !!(how & OWN_CQS));
	CHECK((e->mr = ibv_reg_mr(id->qp->pd, e->buf, sizeof(e->buf), IBV_ACCESS_LOCAL_WRITE)));
}

static void receive(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, sizeof(e->buf), e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(e->id->qp->srq ? ibv_post_srq_recv(e->id->qp->srq, &wr, &bad) == 0 : ibv_post_recv(e->id->qp, &wr, &bad) == 0);
}

static void send_it(struct end *e, unsigned how)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, 3, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->id->qp);

	memcpy(e->buf, "ok", 3);
	CHECK(!ex == !(how & WITH_OPS));
	if (!ex) {
		CHECK(ibv_post_send(e->id->qp, &wr, &bad) == 0);
		return;
	}
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, e->mr->lkey, (uintptr_t)e->buf, 3);
	CHECK(ibv_wr_complete(ex) == 0);
}

static void done(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == id);
}

static void give_back(struct end *e)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	CHECK(ibv_dereg_mr(e->mr) == 0);
	rdma_destroy_qp(e->id);
	CHECK(!e->id->qp && !e->id->send_cq && !e->id->recv_cq && !e->id->send_cq_channel && !e->id->recv_cq_channel);
	rdma_destroy_qp(e->id); /* there is none: nothing happens */
	/* Another in its place. */
	CHECK(rdma_create_qp(e->id, e->pd, &attr) == 0);
	rdma_destroy_qp(e->id);
	rdma_destroy_srq(e->id);
	CHECK(!e->id->srq);
	if (e->srq)
		CHECK(ibv_destroy_srq(e->srq) == 0);
	if (e->cq)
		CHECK(ibv_destroy_cq(e->cq) == 0);
	CHECK(rdma_destroy_id(e->id) == 0);
	if (e->pd)
		CHECK(ibv_dealloc_pd(e->pd) == 0);
}

static void carries(struct rdma_event_channel *channel, const char *arg, unsigned active_how, unsigned passive_how)
{
	struct rdma_cm_id *listener = test_listen(channel, arg, RDMA_PS_TCP);
	struct end a, p;
	struct rdma_cm_event *event;

	make(&a, test_resolve(channel, arg, listener), active_how);
	CHECK(rdma_connect(a.id, NULL) == 0);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	make(&p, event->id, passive_how);
	CHECK(event->param.conn.qp_num == a.id->qp->qp_num);
	CHECK(rdma_ack_cm_event(event) == 0);
	receive(&p);
	CHECK(rdma_accept(p.id, NULL) == 0);
	test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	send_it(&a, active_how);
	done(a.id->qp->send_cq, 2);
	done(p.id->qp->recv_cq, 1);
	CHECK(strcmp(p.buf, "ok") == 0);
	CHECK(rdma_disconnect(a.id) == 0);
	test_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(rdma_disconnect(p.id) == 0);
	test_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	give_back(&a);
	give_back(&p);
	CHECK(rdma_destroy_id(listener) == 0);
}

int main(int argc, char **argv)
{
	static const unsigned ways[] = {
		0, OWN_CQS, OWN_SEND_CQ, OWN_PD, OWN_SRQ, ID_SRQ, OWN_CQS | OWN_SRQ | OWN_PD, ID_SRQ | OWN_PD | OWN_SEND_CQ,
		WITH_OPS, WITH_OPS | OWN_CQS | OWN_PD, WITH_OPS | OWN_SRQ,
	};
	const size_t n = sizeof(ways) / sizeof(ways[0]);
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(argc == 2 && channel);
	for (size_t i = 0; i < n; i++)
		carries(channel, argv[1], ways[i], ways[n - 1 - i]);
	CHECK(!test_readable(channel));
	rdma_destroy_event_channel(channel);
	return 0;
}
