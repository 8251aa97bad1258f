/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IB port space serves all types: unreliable connections and datagrams, which
 * rdma_create_ep(3) names. For datagrams SIDR finds the queue pair.
 */
#include "cm.h"

/* An endpoint for a type of queue pairs, whose events come by the channel. */
static struct rdma_cm_id *endpoint(struct rdma_event_channel *channel, const char *arg, enum ibv_qp_type type, int flags,
				   const char *port)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_IB, .ai_qp_type = type };
	struct ibv_qp_init_attr attr = test_qp(type);
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;

	CHECK(rdma_getaddrinfo(arg, port, &hints, &res) == 0);
	CHECK(rdma_create_ep(&id, res, NULL, flags & RAI_PASSIVE ? NULL : &attr) == 0);
	CHECK(id->qp_type == type && id->ps == RDMA_PS_IB);
	CHECK(rdma_migrate_id(id, channel) == 0);
	rdma_freeaddrinfo(res);
	return id;
}

/* A listener for a type of queue pairs, and an endpoint that has a route to it. */
static void pair(struct rdma_event_channel *channel, const char *arg, enum ibv_qp_type type, struct rdma_cm_id **listener,
		 struct rdma_cm_id **id)
{
	char port[8];

	*listener = endpoint(channel, arg, type, RAI_PASSIVE, NULL);
	CHECK(rdma_listen(*listener, 8) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(*listener)));
	*id = endpoint(channel, arg, type, 0, port);
}

static void connected(struct rdma_event_channel *channel, const char *arg, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = test_qp(type);
	struct rdma_cm_id *listener, *id, *passive;
	struct rdma_cm_event *event;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char buf[8] = "", message[] = "ok";

	pair(channel, arg, type, &listener, &id);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	attr = test_qp(type);
	CHECK(rdma_create_qp(passive, NULL, &attr) == 0);
	mr = rdma_reg_msgs(passive, buf, sizeof(buf));
	CHECK(mr && rdma_post_recv(passive, NULL, buf, sizeof(buf), mr) == 0);
	CHECK(rdma_accept(passive, NULL) == 0);
	CHECK(passive->qp->state == IBV_QPS_RTS && passive->qp->qp_type == type);
	for (int i = 0; i < 2; i++)
		test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(id->qp->state == IBV_QPS_RTS && id->qp->qp_type == type);
	CHECK(rdma_post_send(id, NULL, message, sizeof(message), NULL, IBV_SEND_INLINE) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(passive, &wc) == 1 && wc.status == IBV_WC_SUCCESS && strcmp(buf, "ok") == 0);
	CHECK(rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listener);
}

static void datagrams(struct rdma_event_channel *channel, const char *arg)
{
	struct rdma_conn_param param = { .private_data = "who?", .private_data_len = 4 };
	struct rdma_cm_id *listener, *id, *passive;
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	char buf[64] = "", message[] = "datagram";
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t qpn;

	pair(channel, arg, IBV_QPT_UD, &listener, &id);
	CHECK(id->qp->state == IBV_QPS_RTS);
	CHECK(rdma_connect(id, &param) == 0);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listener && passive->qp_type == IBV_QPT_UD);
	CHECK(event->param.ud.private_data_len >= 4 && memcmp(event->param.ud.private_data, "who?", 4) == 0);
	CHECK(rdma_get_dst_port(passive) == rdma_get_src_port(id));
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_create_qp(passive, NULL, &attr) == 0);
	mr = rdma_reg_msgs(passive, buf, sizeof(buf));
	CHECK(mr && rdma_post_recv(passive, NULL, buf, sizeof(buf), mr) == 0);
	CHECK(rdma_accept(passive, NULL) == 0);
	event = test_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == id && event->param.ud.qp_num == passive->qp->qp_num && event->param.ud.qkey == RDMA_UDP_QKEY);
	ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
	qpn = event->param.ud.qp_num;
	CHECK(ah && rdma_ack_cm_event(event) == 0);
	CHECK(rdma_post_ud_send(id, NULL, message, sizeof(message), NULL, IBV_SEND_INLINE, ah, qpn) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(passive, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(strcmp(buf + sizeof(struct ibv_grh), message) == 0);
	CHECK(ibv_destroy_ah(ah) == 0 && rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(passive);

	/* It is no listener for connections. */
	id = test_resolve(channel, arg, listener);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0 && rdma_connect(id, NULL) == 0);
	test_ack(channel, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	struct rdma_cm_id *id;

	CHECK(argc == 2 && channel);
	connected(channel, argv[1], IBV_QPT_RC);
	datagrams(channel, argv[1]);
	struct sockaddr_in in = test_addr(argv[1], 0);
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&in) == 0);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0 && id->qp->state == IBV_QPS_RTS);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
