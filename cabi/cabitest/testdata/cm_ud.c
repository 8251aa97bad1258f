/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port space: SIDR finds the queue pair, and an address handle made from
 * the event reaches it.
 */
#include "cm.h"

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	struct rdma_conn_param param = { .private_data = "who?", .private_data_len = 4 };
	struct rdma_cm_id *listener, *id, *passive;
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t qpn;
	char buf[64] = "", message[] = "datagram";

	CHECK(argc == 2 && channel);
	listener = test_listen(channel, argv[1], RDMA_PS_UDP);
	CHECK(listener->qp_type == IBV_QPT_UD);
	id = test_resolve(channel, argv[1], listener);
	attr.qp_type = IBV_QPT_RC;
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL); /* not in this port space */
	attr = test_qp(IBV_QPT_UD);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(id->qp->state == IBV_QPS_RTS);
	CHECK(rdma_connect(id, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listener && event->param.ud.private_data_len >= 4);
	CHECK(memcmp(event->param.ud.private_data, "who?", 4) == 0);
	CHECK(rdma_ack_cm_event(event) == 0);
	attr = test_qp(IBV_QPT_UD);
	CHECK(rdma_create_qp(passive, NULL, &attr) == 0);
	mr = rdma_reg_msgs(passive, buf, sizeof(buf));
	CHECK(mr && rdma_post_recv(passive, (void *)7, buf, sizeof(buf), mr) == 0);
	param.private_data = "me";
	param.private_data_len = 2;
	CHECK(rdma_accept(passive, &param) == 0);

	event = test_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == id && event->status == 0);
	CHECK(event->param.ud.qp_num == passive->qp->qp_num && event->param.ud.qkey == RDMA_UDP_QKEY);
	CHECK(event->param.ud.private_data_len >= 2 && memcmp(event->param.ud.private_data, "me", 2) == 0);
	ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	qpn = event->param.ud.qp_num;
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_post_ud_send(id, NULL, message, sizeof(message), NULL, IBV_SEND_INLINE, ah, qpn) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(passive, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 7);
	CHECK(wc.byte_len == sizeof(struct ibv_grh) + sizeof(message) && wc.src_qp == id->qp->qp_num);
	CHECK(strcmp(buf + sizeof(struct ibv_grh), "datagram") == 0);
	CHECK(ibv_destroy_ah(ah) == 0);
	CHECK(rdma_dereg_mr(mr) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(passive);

	/* The server refuses. */
	id = test_resolve(channel, argv[1], listener);
	attr = test_qp(IBV_QPT_UD);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_reject(passive, NULL, 0) == 0);
	event = test_event(channel, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->id == id && event->status != 0);
	CHECK(rdma_ack_cm_event(event) == 0);
	rdma_destroy_ep(id);
	CHECK(rdma_destroy_id(passive) == 0);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
