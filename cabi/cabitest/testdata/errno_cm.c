/* SPDX-License-Identifier: BSD-2-Clause */
/* errno after each function of librdmacm.so.1 but rsockets: calls.h. */
#include "calls.h"
#include "cm.h"
#include "newer.h"

#include <fcntl.h>
#include <infiniband/verbs.h>

static const char *addr_arg;
static struct rdma_event_channel *channel;

static void ack(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	SUCCEEDS(rdma_get_cm_event, (channel, &event), == 0);
	CHECK(event->event == type);
	SUCCEEDS(rdma_ack_cm_event, (event), == 0);
}

static void nobody(void)
{
	struct rdma_cm_event *event;
	struct ibv_context **list;
	struct rdma_addrinfo *info;
	int n;

	list = SUCCEEDS(rdma_get_devices, (&n), != NULL);
	DOES(rdma_free_devices, (list));
	SUCCEEDS(rdma_getaddrinfo, (addr_arg, "7", NULL, &info), == 0);
	DOES(rdma_freeaddrinfo, (info));
	FAILS_MINUS(rdma_getaddrinfo, ("nosuch.invalid.", "7", &(struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST}, &info));
	channel = SUCCEEDS(rdma_create_event_channel, (), != NULL);
	CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	FAILS_MINUS(rdma_get_cm_event, (channel, &event));
	CHECK(fcntl(channel->fd, F_SETFL, 0) == 0);
	FAILS_MINUS(rdma_ack_cm_event, (NULL));
	SUCCEEDS(rdma_event_str, (RDMA_CM_EVENT_ESTABLISHED), != NULL);
}

/* Calls that need an identifier and are refused without one. */
static void no_identifier(void)
{
	struct sockaddr_in in = test_addr(addr_arg, 0);
	struct sockaddr *addr = (struct sockaddr *)&in;
	struct ibv_srq_init_attr_ex srq = {.comp_mask = 0};
	struct rdma_cm_join_mc_attr_ex mc = {.comp_mask = 0};
	struct ibv_qp_init_attr_ex qpx = {.comp_mask = 0};
	struct ibv_qp_init_attr qp = test_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr;
	struct ibv_ece ece;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	int mask;

	FAILS_MINUS(rdma_create_id, (channel, NULL, NULL, RDMA_PS_TCP));
	SUCCEEDS(rdma_create_id, (channel, &id, NULL, RDMA_PS_TCP), == 0);
	FAILS_MINUS(rdma_destroy_id, (NULL));
	FAILS_MINUS(rdma_migrate_id, (NULL, channel));
	FAILS_MINUS(rdma_bind_addr, (NULL, addr));
	FAILS_MINUS(rdma_resolve_addr, (id, NULL, NULL, 100));
	FAILS_MINUS(rdma_resolve_route, (id, 100));
	FAILS_MINUS(rdma_listen, (NULL, 1));
	FAILS_MINUS(rdma_get_request, (NULL, &id));
	FAILS_MINUS(rdma_connect, (id, NULL));
	FAILS_MINUS(rdma_accept, (id, NULL));
	FAILS_MINUS(rdma_reject, (id, NULL, 0));
	FAILS_MINUS(rdma_reject_ece, (id, NULL, 0));
	FAILS_MINUS(rdma_establish, (id));
	FAILS_MINUS(rdma_notify, (NULL, IBV_EVENT_COMM_EST));
	FAILS_MINUS(rdma_disconnect, (id));
	FAILS_MINUS(rdma_create_qp, (id, NULL, &qp));
	FAILS_MINUS(rdma_create_qp_ex, (id, &qpx));
	DOES(rdma_destroy_qp, (id));
	FAILS_MINUS(rdma_create_srq, (id, NULL, NULL));
	FAILS_MINUS(rdma_create_srq_ex, (id, &srq));
	DOES(rdma_destroy_srq, (id));
	FAILS_MINUS(rdma_init_qp_attr, (NULL, &attr, &mask));
	FAILS_MINUS(rdma_join_multicast, (id, NULL, NULL));
	FAILS_MINUS(rdma_join_multicast_ex, (id, &mc, NULL));
	FAILS_MINUS(rdma_leave_multicast, (id, addr));
	FAILS_MINUS(rdma_set_option, (id, 77, 77, NULL, 0));
	SUCCEEDS(rdma_set_local_ece, (id, &(struct ibv_ece){.vendor_id = 1}), == 0);
	FAILS_MINUS(rdma_set_local_ece, (id, NULL));
	SUCCEEDS(rdma_get_remote_ece, (id, &ece), == 0);
	FAILS_MINUS(rdma_get_remote_ece, (id, NULL));
	FAILS_MINUS(rdma_query_addrinfo, (id, NULL));
	FAILS_MINUS(rdma_resolve_addrinfo, (id, NULL, NULL, NULL));
	FAILS_MINUS(rdma_write_cm_event, (id, RDMA_CM_EVENT_ESTABLISHED, 0, 0));
	SUCCEEDS(rdma_resolve_addrinfo, (id, addr_arg, "7", NULL), == 0);
	ack(RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	SUCCEEDS(rdma_query_addrinfo, (id, &info), == 0);
	rdma_freeaddrinfo(info);
	SUCCEEDS(rdma_write_cm_event, (id, RDMA_CM_EVENT_USER, 0, 0), == 0);
	ack(RDMA_CM_EVENT_USER);
	FAILS_MINUS(rdma_create_ep, (NULL, NULL, NULL, NULL));
	SUCCEEDS(rdma_destroy_id, (id), == 0);
}

static void connection(void)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr;
	struct sockaddr_in in = test_addr(addr_arg, 0);
	struct rdma_event_channel *other;
	struct rdma_cm_id *listener, *id, *server;
	struct rdma_cm_event *event;
	struct ibv_qp_attr qp_attr;
	struct ibv_pd *pd;
	int mask, on = 1;

	SUCCEEDS(rdma_create_id, (channel, &listener, NULL, RDMA_PS_TCP), == 0);
	SUCCEEDS(rdma_set_option, (listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), == 0);
	SUCCEEDS(rdma_bind_addr, (listener, (struct sockaddr *)&in), == 0);
	SUCCEEDS(rdma_listen, (listener, 8), == 0);
	in.sin_port = SUCCEEDS(rdma_get_src_port, (listener), != 0);
	for (int round = 0; round < 3; round++) { /* is rejected twice, then accepted */
		CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
		SUCCEEDS(rdma_resolve_addr, (id, NULL, (struct sockaddr *)&in, 2000), == 0);
		ack(RDMA_CM_EVENT_ADDR_RESOLVED);
		SUCCEEDS(rdma_get_dst_port, (id), == in.sin_port);
		SUCCEEDS(rdma_resolve_route, (id, 2000), == 0);
		ack(RDMA_CM_EVENT_ROUTE_RESOLVED);
		CHECK((pd = ibv_alloc_pd(id->verbs)) != NULL);
		attr = test_qp(IBV_QPT_RC);
		SUCCEEDS(rdma_create_qp, (id, pd, &attr), == 0);
		qp_attr.qp_state = IBV_QPS_INIT;
		SUCCEEDS(rdma_init_qp_attr, (id, &qp_attr, &mask), == 0);
		SUCCEEDS(rdma_connect, (id, &param), == 0);
		event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		server = event->id;
		CHECK(rdma_ack_cm_event(event) == 0);
		if (round == 0)
			SUCCEEDS(rdma_reject, (server, NULL, 0), == 0);
		if (round == 1)
			SUCCEEDS(rdma_reject_ece, (server, NULL, 0), == 0);
		if (round < 2) {
			ack(RDMA_CM_EVENT_REJECTED);
		} else {
			struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .cap = attr.cap, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD};

			CHECK(server->verbs == id->verbs);
			SUCCEEDS(rdma_create_qp_ex, (server, &ex), == 0);
			SUCCEEDS(rdma_accept, (server, &param), == 0);
			ack(RDMA_CM_EVENT_ESTABLISHED);
			ack(RDMA_CM_EVENT_ESTABLISHED);
			SUCCEEDS(rdma_notify, (server, IBV_EVENT_COMM_EST), == 0);
			CHECK((other = rdma_create_event_channel()) != NULL);
			SUCCEEDS(rdma_migrate_id, (server, other), == 0);
			SUCCEEDS(rdma_migrate_id, (server, channel), == 0);
			DOES(rdma_destroy_event_channel, (other));
			SUCCEEDS(rdma_disconnect, (id), == 0);
			ack(RDMA_CM_EVENT_DISCONNECTED);
			SUCCEEDS(rdma_disconnect, (server), == 0);
			ack(RDMA_CM_EVENT_DISCONNECTED);
			DOES(rdma_destroy_qp, (server));
		}
		SUCCEEDS(rdma_destroy_id, (server), == 0);
		DOES(rdma_destroy_qp, (id));
		CHECK(ibv_dealloc_pd(pd) == 0);
		SUCCEEDS(rdma_destroy_id, (id), == 0);
	}
	SUCCEEDS(rdma_destroy_id, (listener), == 0);
}

/* An endpoint whose calls wait, and that drives a queue pair which is not the identifier's. */
static void endpoints(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7, .qp_num = 0x77};
	struct rdma_cm_id *listener, *id, *server;
	struct sockaddr_in in;

	CHECK(rdma_getaddrinfo(addr_arg, NULL, &hints, &info) == 0);
	SUCCEEDS(rdma_create_ep, (&listener, info, NULL, &attr), == 0);
	rdma_freeaddrinfo(info);
	CHECK(rdma_listen(listener, 1) == 0);
	in = test_addr(addr_arg, ntohs(rdma_get_src_port(listener)));
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000) == 0);
	ack(RDMA_CM_EVENT_ADDR_RESOLVED);
	struct ibv_srq_init_attr_ex srq_ex = {.attr = srq.attr, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_BASIC};

	SUCCEEDS(rdma_create_srq, (id, NULL, &srq), == 0);
	DOES(rdma_destroy_srq, (id));
	SUCCEEDS(rdma_create_srq_ex, (id, &srq_ex), == 0);
	DOES(rdma_destroy_srq, (id));
	CHECK(rdma_resolve_route(id, 2000) == 0);
	ack(RDMA_CM_EVENT_ROUTE_RESOLVED);
	SUCCEEDS(rdma_connect, (id, &param), == 0);
	SUCCEEDS(rdma_get_request, (listener, &server), == 0);
	CHECK(rdma_migrate_id(server, channel) == 0); /* for rdma_accept not to wait for rdma_establish */
	CHECK(rdma_accept(server, &(struct rdma_conn_param){0}) == 0);
	ack(RDMA_CM_EVENT_CONNECT_RESPONSE);
	SUCCEEDS(rdma_establish, (id), == 0);
	ack(RDMA_CM_EVENT_ESTABLISHED);
	SUCCEEDS(rdma_disconnect, (id), == 0);
	DOES(rdma_destroy_ep, (server));
	SUCCEEDS(rdma_destroy_id, (id), == 0);
	DOES(rdma_destroy_ep, (listener));
}

static void groups(void)
{
	struct sockaddr_in in = test_addr(addr_arg, 0), group = test_addr("239.9.9.9", 0);
	struct rdma_cm_join_mc_attr_ex mc = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					     .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER, .addr = (struct sockaddr *)&group};
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&in) == 0);
	SUCCEEDS(rdma_join_multicast, (id, (struct sockaddr *)&group, NULL), == 0);
	ack(RDMA_CM_EVENT_MULTICAST_JOIN);
	SUCCEEDS(rdma_leave_multicast, (id, (struct sockaddr *)&group), == 0);
	SUCCEEDS(rdma_join_multicast_ex, (id, &mc, NULL), == 0);
	ack(RDMA_CM_EVENT_MULTICAST_JOIN);
	SUCCEEDS(rdma_leave_multicast, (id, (struct sockaddr *)&group), == 0);
	SUCCEEDS(rdma_destroy_id, (id), == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	addr_arg = argv[1];
	nobody();
	no_identifier();
	connection();
	endpoints();
	groups();
	DOES(rdma_destroy_event_channel, (channel));
	return wrong != 0;
}
