/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair of the application's own, which rdma_init_qp_attr(3) says how to
 * modify, on both sides; rdma_establish(3).
 */
#include "cm.h"

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[8];
};

static void to(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state, int must)
{
	struct ibv_qp_attr attr;
	int mask = 0;

	memset(&attr, 0xa5, sizeof(attr));
	attr.qp_state = state;
	CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0);
	CHECK(attr.qp_state == state && (mask & must) == must);
	CHECK(ibv_modify_qp(qp, &attr, mask) == 0);
	CHECK(qp->state == state);
}

static void make(struct side *side, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	side->pd = ibv_alloc_pd(id->verbs);
	side->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(side->pd && side->cq);
	attr.send_cq = attr.recv_cq = side->cq;
	side->qp = ibv_create_qp(side->pd, &attr);
	side->mr = ibv_reg_mr(side->pd, side->buf, sizeof(side->buf), IBV_ACCESS_LOCAL_WRITE);
	CHECK(side->qp && side->mr);
	to(id, side->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void free_side(struct side *side)
{
	CHECK(ibv_destroy_qp(side->qp) == 0);
	CHECK(ibv_dereg_mr(side->mr) == 0);
	CHECK(ibv_destroy_cq(side->cq) == 0);
	CHECK(ibv_dealloc_pd(side->pd) == 0);
}

static void poll_one(struct side *side)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(side->cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	const int rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_cm_event *event;
	struct side a = { .buf = "hello" }, p = { .buf = "" };

	CHECK(argc == 2 && channel);
	listener = test_listen(channel, argv[1], RDMA_PS_TCP);
	active = test_resolve(channel, argv[1], listener);
	make(&a, active);
	CHECK_FAILS(rdma_connect(active, &param), EINVAL); /* it names no queue pair */
	param.qp_num = a.qp->qp_num;
	CHECK(rdma_connect(active, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listener && event->param.conn.qp_num == a.qp->qp_num);
	CHECK(event->param.conn.responder_resources == 1 && event->param.conn.initiator_depth == 1);
	CHECK(rdma_ack_cm_event(event) == 0);
	make(&p, passive);
	to(passive, p.qp, IBV_QPS_RTR, rtr);
	to(passive, p.qp, IBV_QPS_RTS, rts);
	struct ibv_sge sge = { .addr = (uintptr_t)p.buf, .length = sizeof(p.buf), .lkey = p.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	CHECK(ibv_post_recv(p.qp, &recv, &bad_recv) == 0);
	param.qp_num = p.qp->qp_num;
	CHECK(rdma_accept(passive, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(event->id == active && event->param.conn.qp_num == p.qp->qp_num);
	CHECK(rdma_ack_cm_event(event) == 0);
	to(active, a.qp, IBV_QPS_RTR, rtr);
	to(active, a.qp, IBV_QPS_RTS, rts);
	CHECK(rdma_establish(active) == 0);
	event = test_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == passive);
	CHECK(rdma_ack_cm_event(event) == 0);

	sge.addr = (uintptr_t)a.buf;
	sge.lkey = a.mr->lkey;
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	CHECK(ibv_post_send(a.qp, &send, &bad) == 0);
	poll_one(&a);
	poll_one(&p);
	CHECK(strcmp(p.buf, "hello") == 0);

	/* The peer's answer ends the connection here. */
	CHECK(rdma_disconnect(active) == 0);
	event = test_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(event->id == passive);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_disconnect(passive) == 0);
	event = test_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(event->id == active);
	CHECK(rdma_ack_cm_event(event) == 0);
	free_side(&a);
	free_side(&p);
	CHECK(rdma_destroy_id(active) == 0 && rdma_destroy_id(passive) == 0 && rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
