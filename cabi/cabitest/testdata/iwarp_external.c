/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP: queue pairs of the application's own, named by their numbers, which the connection takes
 * to RTS, and the differences from InfiniBand.
 */
#include "external.h"

/* Takes a queue pair to a state as a program does that knows InfiniBand. */
static void to(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state, int want)
{
	struct ibv_qp_attr attr;
	int mask = -1;

	memset(&attr, 0xa5, sizeof(attr));
	attr.qp_state = state;
	CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0);
	CHECK(attr.qp_state == state && mask == want);
	CHECK(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void make(struct side *side, struct rdma_cm_id *id)
{
	make_side(side, id);
	to(id, side->qp, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

/* The attributes of an iWARP device, and the calls that it lacks. */
static void check_device(struct ibv_context *ctx)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);

	CHECK(ctx->device->transport_type == IBV_TRANSPORT_IWARP && ctx->device->node_type == IBV_NODE_RNIC);
	CHECK(pd && cq);
	attr.send_cq = attr.recv_cq = cq;
	for (int t = 0; t < 2; t++) {
		attr.qp_type = t ? IBV_QPT_UC : IBV_QPT_UD;
		errno = 0;
		CHECK(!ibv_create_qp(pd, &attr) && errno == EOPNOTSUPP);
	}
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .private_data = "ask", .private_data_len = 4 };
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_cm_event *event;
	struct side a = { .buf = "hello" }, p = { .buf = "" };

	CHECK(argc == 2 && channel);
	listener = test_listen(channel, argv[1], RDMA_PS_TCP);
	active = test_resolve(channel, argv[1], listener);
	CHECK(active->route.num_paths == 0 && !active->route.path_rec); /* there are no path records */
	check_device(active->verbs);
	CHECK_FAILS(rdma_connect(active, &param), EINVAL); /* it names no queue pair */
	param.qp_num = 0xfffffe;
	CHECK_FAILS(rdma_connect(active, &param), EINVAL); /* nor is there one of this number */
	make(&a, active);
	param.qp_num = a.qp->qp_num;
	CHECK(rdma_connect(active, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listener && event->param.conn.private_data_len >= 4 && strcmp(event->param.conn.private_data, "ask") == 0);
	CHECK(event->param.conn.responder_resources == 1 && event->param.conn.initiator_depth == 1);
	CHECK(rdma_ack_cm_event(event) == 0);
	make(&p, passive);
	to(passive, p.qp, IBV_QPS_RTR, 0);
	to(passive, p.qp, IBV_QPS_RTS, 0);
	post_side_recv(&p);
	param.qp_num = p.qp->qp_num;
	param.private_data = "told";
	param.private_data_len = 5;
	CHECK(rdma_accept(passive, &param) == 0);

	/* Both are established at once: there is no CONNECT_RESPONSE for the application to answer. */
	for (int seen = 0; seen < 2; seen++) {
		event = test_event(channel, RDMA_CM_EVENT_ESTABLISHED);
		if (event->id == active)
			CHECK(event->param.conn.private_data_len >= 5 && strcmp(event->param.conn.private_data, "told") == 0);
		CHECK(rdma_ack_cm_event(event) == 0);
	}
	CHECK(state_of(a.qp) == IBV_QPS_RTS && state_of(p.qp) == IBV_QPS_RTS);

	exchange(&a, &p);

	CHECK(rdma_disconnect(active) == 0);
	for (int seen = 0; seen < 2; seen++)
		test_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(rdma_disconnect(passive) == 0); /* does nothing any more */
	free_side(&a);
	free_side(&p);
	free_ids(channel, active, passive, listener);
	return 0;
}
