/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wrong calls: each says so, and nothing crashes.
 */
#include "cm.h"

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in in, nowhere = test_addr("203.0.113.77", 1);
	struct sockaddr_storage odd = { .ss_family = AF_UNIX };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7, .qp_num = 17 };
	struct rdma_cm_join_mc_attr_ex join = { 0 };
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct ibv_qp_init_attr_ex attr_ex = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex srq_ex = { .comp_mask = 0 };
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_ece ece = { 0 };
	struct rdma_addrinfo info = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *other, *sync;
	struct ibv_context **list;
	int mask, n, on = 1;
	uint8_t tos = 32;

	CHECK(argc == 2 && channel);
	in = test_addr(argv[1], 0);

	/* Null pointers. */
	CHECK_FAILS(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	CHECK_FAILS(rdma_destroy_id(NULL), EINVAL);
	CHECK_FAILS(rdma_bind_addr(NULL, (struct sockaddr *)&in), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(NULL, NULL, (struct sockaddr *)&in, 1), EINVAL);
	CHECK_FAILS(rdma_resolve_route(NULL, 1), EINVAL);
	CHECK_FAILS(rdma_create_qp(NULL, NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_qp_ex(NULL, &attr_ex), EINVAL);
	CHECK_FAILS(rdma_create_srq(NULL, NULL, &srq), EINVAL);
	CHECK_FAILS(rdma_connect(NULL, &param), EINVAL);
	CHECK_FAILS(rdma_accept(NULL, &param), EINVAL);
	CHECK_FAILS(rdma_reject(NULL, NULL, 0), EINVAL);
	CHECK_FAILS(rdma_reject_ece(NULL, NULL, 0), EINVAL);
	CHECK_FAILS(rdma_establish(NULL), EINVAL);
	CHECK_FAILS(rdma_disconnect(NULL), EINVAL);
	CHECK_FAILS(rdma_notify(NULL, IBV_EVENT_COMM_EST), EINVAL);
	CHECK_FAILS(rdma_listen(NULL, 1), EINVAL);
	CHECK_FAILS(rdma_get_request(NULL, &id), EINVAL);
	CHECK_FAILS(rdma_get_cm_event(NULL, &event), EINVAL);
	CHECK_FAILS(rdma_get_cm_event(channel, NULL), EINVAL);
	CHECK_FAILS(rdma_ack_cm_event(NULL), EINVAL);
	CHECK_FAILS(rdma_migrate_id(NULL, channel), EINVAL);
	CHECK_FAILS(rdma_set_option(NULL, 0, 0, &tos, 1), EINVAL);
	CHECK_FAILS(rdma_join_multicast(NULL, (struct sockaddr *)&in, NULL), EINVAL);
	CHECK_FAILS(rdma_leave_multicast(NULL, (struct sockaddr *)&in), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(NULL, &qp_attr, &mask), EINVAL);
	CHECK_FAILS(rdma_create_ep(&id, NULL, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_create_ep(NULL, &info, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_set_local_ece(NULL, &ece), EINVAL);
	CHECK_FAILS(rdma_get_remote_ece(NULL, &ece), EINVAL);
	rdma_destroy_qp(NULL);
	rdma_destroy_srq(NULL);
	rdma_destroy_ep(NULL);
	rdma_destroy_event_channel(NULL);
	rdma_free_devices(NULL);
	CHECK(rdma_get_src_port(NULL) == 0 && rdma_get_dst_port(NULL) == 0);

	/* An identifier without a device. */
	CHECK_FAILS(rdma_create_id(channel, &id, NULL, 0x7777), EINVAL);
	CHECK(rdma_create_id(channel, &id, (void *)5, RDMA_PS_TCP) == 0);
	CHECK(id->context == (void *)5 && id->channel == channel && !id->verbs && !id->qp && !id->port_num);
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_srq(id, NULL, &srq), EINVAL);
	CHECK_FAILS(rdma_connect(id, &param), EINVAL);
	CHECK_FAILS(rdma_accept(id, &param), EINVAL);
	CHECK_FAILS(rdma_disconnect(id), EINVAL);
	CHECK_FAILS(rdma_establish(id), EINVAL);
	CHECK_FAILS(rdma_reject(id, NULL, 0), EINVAL);
	CHECK_FAILS(rdma_resolve_route(id, 1000), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(id, NULL, &mask), EINVAL);
	CHECK_FAILS(rdma_get_request(id, &other), EINVAL); /* not synchronous */

	/* Addresses. */
	CHECK_FAILS(rdma_bind_addr(id, NULL), EINVAL);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&odd), EINVAL);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&nowhere), ENODEV);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(id, (struct sockaddr *)&odd, (struct sockaddr *)&in, 1000), EINVAL);
	/* A port that is free: localhost without one names no device (libfabric asks so). */
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(other, (struct sockaddr *)&in) == 0);
	CHECK(!other->verbs == (in.sin_addr.s_addr == htonl(INADDR_LOOPBACK)));
	in.sin_port = rdma_get_src_port(other);
	CHECK(rdma_destroy_id(other) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&in) == 0);
	CHECK(id->verbs && id->pd && id->port_num == 1 && rdma_get_src_port(id) != 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&in), EINVAL);
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == 0);
	in.sin_port = rdma_get_src_port(id);
	CHECK_FAILS(rdma_bind_addr(other, (struct sockaddr *)&in), EADDRINUSE);

	/* Queue pairs and shared receive queues. */
	attr.cap.max_send_wr = 1u << 30;
	errno = 0;
	CHECK(rdma_create_qp(id, NULL, &attr) == -1 && errno != 0);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel && !attr.send_cq && !attr.recv_cq);
	attr = test_qp(IBV_QPT_UD);
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL); /* not in this port space */
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_srq_ex(id, &srq_ex), EINVAL); /* without a type */
	CHECK_FAILS(rdma_establish(id), EINVAL);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
	CHECK(rdma_create_srq(id, NULL, &srq) == 0 && id->srq);
	CHECK_FAILS(rdma_create_srq(id, NULL, &srq), EINVAL);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0 && id->qp->srq == id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(!id->srq);

	/* Options. */
	CHECK(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0);
	CHECK_FAILS(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)), EINVAL);
	CHECK_FAILS(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	CHECK_FAILS(rdma_set_option(other, RDMA_OPTION_ID, 99, &tos, 1), ENOSYS);
	CHECK_FAILS(rdma_set_option(other, 99, 0, &tos, 1), ENOSYS);
	CHECK(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) == 0);

	/* Multicast. */
	CHECK_FAILS(rdma_join_multicast(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast_ex(id, &join, NULL), EINVAL);
	join.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	CHECK_FAILS(rdma_join_multicast_ex(id, &join, NULL), ENOTSUP);
	CHECK_FAILS(rdma_leave_multicast(id, (struct sockaddr *)&in), EADDRNOTAVAIL);

	/* ECE. */
	CHECK_FAILS(rdma_set_local_ece(id, &ece), EINVAL); /* without a vendor */
	ece.vendor_id = 1;
	CHECK(rdma_set_local_ece(id, &ece) == 0);
	CHECK_FAILS(rdma_get_remote_ece(id, NULL), EINVAL);
	memset(&ece, 0xff, sizeof(ece));
	CHECK(rdma_get_remote_ece(id, &ece) == 0 && !ece.vendor_id && !ece.options && !ece.comp_mask);

	/* Synchronous mode; a source that is not ours. */
	CHECK(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP) == 0);
	errno = 0;
	CHECK(rdma_resolve_addr(sync, (struct sockaddr *)&nowhere, (struct sockaddr *)&in, 100) == -1 && errno != 0);
	CHECK(!sync->verbs && !sync->event);
	CHECK_FAILS(rdma_migrate_id(sync, NULL), EINVAL);

	/* Devices. */
	list = rdma_get_devices(&n);
	CHECK(list && n >= 1 && !list[n]);
	for (mask = 0; mask < n && list[mask] != id->verbs;)
		mask++;
	CHECK(mask < n); /* the contexts are those of identifiers */
	rdma_free_devices(list);
	list = rdma_get_devices(NULL);
	CHECK(list);
	rdma_free_devices(list);

	CHECK(rdma_destroy_id(sync) == 0 && rdma_destroy_id(other) == 0 && rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
