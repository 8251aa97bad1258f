/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An IPv4 and an IPv6 listener on one port, as tgtd has them, and each gets its
 * own requests. The IPv6 one must say RDMA_OPTION_ID_AFONLY: the wildcard address
 * is that of both families else, as for TCP.
 */
#include "cm.h"

static struct rdma_cm_id *listener(struct rdma_event_channel *channel, int family, uint16_t port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct rdma_cm_id *id;
	int only = family == AF_INET6;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)) == 0);
	CHECK(rdma_bind_addr(id, family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six) == 0);
	CHECK(rdma_listen(id, 1) == 0);
	return id;
}

static void resolve(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr *to)
{
	CHECK(rdma_resolve_addr(id, NULL, to, 1000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 1000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* A client of an address reaches the listener of its family. */
static void asks(struct rdma_event_channel *server, struct rdma_cm_id *want, struct sockaddr *to)
{
	struct rdma_event_channel *client = rdma_create_event_channel();
	struct rdma_conn_param param = {.retry_count = 7};
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(client && rdma_create_id(client, &id, NULL, RDMA_PS_TCP) == 0);
	resolve(client, id, to);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, &param) == 0);
	event = test_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(event->listen_id == want);
	CHECK(rdma_reject(event->id, NULL, 0) == 0);
	CHECK(rdma_destroy_id(event->id) == 0);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_get_cm_event(client, &event) == 0 && event->event == RDMA_CM_EVENT_REJECTED);
	CHECK(rdma_ack_cm_event(event) == 0);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(client);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *server = rdma_create_event_channel();
	struct sockaddr_in6 to6 = {.sin6_family = AF_INET6};
	struct rdma_cm_id *four, *six;
	struct sockaddr_in to4;

	CHECK(argc == 2 && server);
	four = listener(server, AF_INET, 0);
	to4 = test_addr(argv[1], ntohs(rdma_get_src_port(four)));
	CHECK(rdma_create_id(server, &six, NULL, RDMA_PS_TCP) == 0);
	to6.sin6_port = to4.sin_port;
	to6.sin6_addr = in6addr_any;
	CHECK_FAILS(rdma_bind_addr(six, (struct sockaddr *)&to6), EADDRINUSE);
	CHECK(rdma_destroy_id(six) == 0);
	six = listener(server, AF_INET6, ntohs(to4.sin_port));
	to6.sin6_addr = in6addr_loopback;
	to6.sin6_port = rdma_get_src_port(six);
	CHECK(to6.sin6_port == to4.sin_port);
	asks(server, four, (struct sockaddr *)&to4);
	asks(server, six, (struct sockaddr *)&to6);
	CHECK(rdma_destroy_id(four) == 0);
	CHECK(rdma_destroy_id(six) == 0);
	rdma_destroy_event_channel(server);
	return 0;
}
