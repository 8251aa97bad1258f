/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair of the application's own, which rdma_init_qp_attr(3) says how to
 * modify, on both sides; rdma_establish(3). The messages carry what both sides say of their vendor:
 * rdma_set_local_ece(3).
 */
#include "external.h"

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
	make_side(side, id);
	to(id, side->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int main(int argc, char **argv)
{
	const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	const int rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_cm_event *event;
	struct ibv_ece offer = {.vendor_id = 0xabcdef, .options = 0x11223344}, answer = {.vendor_id = 0x123, .options = 0x55}, ece;
	struct side a = { .buf = "hello" }, p = { .buf = "" };

	CHECK(argc == 2 && channel);
	listener = test_listen(channel, argv[1], RDMA_PS_TCP);
	active = test_resolve(channel, argv[1], listener);
	make(&a, active);
	CHECK_FAILS(rdma_connect(active, &param), EINVAL); /* it names no queue pair */
	param.qp_num = a.qp->qp_num;
	CHECK(rdma_set_local_ece(active, &offer) == 0);
	CHECK(rdma_connect(active, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listener && event->param.conn.qp_num == a.qp->qp_num);
	CHECK(event->param.conn.responder_resources == 1 && event->param.conn.initiator_depth == 1);
	CHECK(rdma_ack_cm_event(event) == 0);
	make(&p, passive);
	to(passive, p.qp, IBV_QPS_RTR, rtr);
	to(passive, p.qp, IBV_QPS_RTS, rts);
	post_side_recv(&p);
	CHECK(rdma_get_remote_ece(passive, &ece) == 0 && ece.vendor_id == 0xabcdef && ece.options == 0x11223344);
	CHECK(rdma_set_local_ece(passive, &answer) == 0);
	param.qp_num = p.qp->qp_num;
	CHECK(rdma_accept(passive, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(event->id == active && event->param.conn.qp_num == p.qp->qp_num);
	/* An answer has the vendor of the offer. */
	CHECK(rdma_get_remote_ece(active, &ece) == 0 && ece.vendor_id == 0xabcdef && ece.options == 0x55);
	CHECK(rdma_ack_cm_event(event) == 0);
	to(active, a.qp, IBV_QPS_RTR, rtr);
	to(active, a.qp, IBV_QPS_RTS, rts);
	CHECK(rdma_establish(active) == 0);
	event = test_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == passive);
	CHECK(rdma_ack_cm_event(event) == 0);

	exchange(&a, &p);

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
	free_ids(channel, active, passive, listener);
	return 0;
}
