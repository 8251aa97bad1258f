/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast joins: the event, the context that comes back, sending and leaving.
 */
#include "cm.h"

#define GROUP "239.77.1.9"

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in local, group = test_addr(GROUP, 0);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_UD);
	struct rdma_cm_join_mc_attr_ex join = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_id *receiver, *sender;
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t qpn;
	char buf[64] = "", message[] = "to all", cookie;

	CHECK(argc == 2 && channel);
	local = test_addr(argv[1], 0);
	CHECK(rdma_create_id(channel, &receiver, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_create_id(channel, &sender, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_bind_addr(receiver, (struct sockaddr *)&local) == 0);
	CHECK(rdma_bind_addr(sender, (struct sockaddr *)&local) == 0);
	CHECK(rdma_create_qp(receiver, NULL, &attr) == 0);
	attr = test_qp(IBV_QPT_UD);
	CHECK(rdma_create_qp(sender, NULL, &attr) == 0);
	mr = rdma_reg_msgs(receiver, buf, sizeof(buf));
	CHECK(mr && rdma_post_recv(receiver, NULL, buf, sizeof(buf), mr) == 0);

	CHECK(rdma_join_multicast(receiver, (struct sockaddr *)&group, &cookie) == 0);
	event = test_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->id == receiver && event->status == 0 && event->param.ud.private_data == &cookie);
	CHECK(rdma_ack_cm_event(event) == 0);

	CHECK(rdma_join_multicast_ex(sender, &join, &channel) == 0);
	event = test_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->id == sender && event->param.ud.private_data == &channel);
	CHECK(event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == RDMA_UDP_QKEY);
	qpn = event->param.ud.qp_num;
	ah = ibv_create_ah(sender->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_post_ud_send(sender, NULL, message, sizeof(message), NULL, IBV_SEND_INLINE, ah, qpn) == 0);
	CHECK(rdma_get_send_comp(sender, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(receiver, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(strcmp(buf + sizeof(struct ibv_grh), "to all") == 0);
	CHECK(ibv_destroy_ah(ah) == 0);

	/* Leaving waits for no one; a join whose event was not fetched takes it along. */
	CHECK(rdma_leave_multicast(receiver, (struct sockaddr *)&group) == 0);
	CHECK_FAILS(rdma_leave_multicast(receiver, (struct sockaddr *)&group), EADDRNOTAVAIL);
	CHECK(rdma_join_multicast(receiver, (struct sockaddr *)&group, NULL) == 0);
	test_wait(channel);
	CHECK(rdma_leave_multicast(receiver, (struct sockaddr *)&group) == 0);
	CHECK(!test_readable(channel));

	CHECK(rdma_dereg_mr(mr) == 0);
	rdma_destroy_qp(receiver);
	rdma_destroy_qp(sender);
	CHECK(rdma_destroy_id(receiver) == 0 && rdma_destroy_id(sender) == 0); /* with a join */
	rdma_destroy_event_channel(channel);
	return 0;
}
