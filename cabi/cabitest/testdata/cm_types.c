/*
 * The IB port space serves all types: unreliable connections and datagrams.
 */
#include "cm.h"

static void connected(struct rdma_event_channel *channel, const char *arg, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = test_qp(type);
	struct rdma_cm_id *listener = test_listen(channel, arg, RDMA_PS_IB);
	struct rdma_cm_id *id = test_resolve(channel, arg, listener), *passive;
	struct rdma_cm_event *event;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char buf[8] = "", message[] = "ok";

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
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

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	struct rdma_cm_id *id;

	CHECK(argc == 2 && channel);
	connected(channel, argv[1], IBV_QPT_RC);
	connected(channel, argv[1], IBV_QPT_UC);
	struct sockaddr_in in = test_addr(argv[1], 0);
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&in) == 0);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0 && id->qp->state == IBV_QPS_RTS);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
