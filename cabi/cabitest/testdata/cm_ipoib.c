/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port space of interfaces over InfiniBand, which no device here has. It
 * fails where Linux has it fail over Ethernet: an identifier may be made, and
 * bound to any address, but not to an interface's.
 */
#include "cm.h"

/* An interface's address is refused, and one that is reached from there. */
static void interface(struct rdma_event_channel *channel, struct sockaddr_in in)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB) == 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&in), EINVAL);
	in.sin_port = htons(9);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000) == 0);
	event = test_event(channel, RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(event->status == -EINVAL && event->id == id);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(!id->verbs && !id->qp);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_IPOIB) == 0);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000), EINVAL);
	CHECK(rdma_destroy_id(id) == 0);
}

/* Localhost is every device's, and has no queue pair. */
static void localhost(struct rdma_event_channel *channel, struct sockaddr_in in)
{
	struct ibv_qp_init_attr ud = test_qp(IBV_QPT_UD), rc = test_qp(IBV_QPT_RC);
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB) == 0);
	in.sin_port = htons(9);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 1000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_FAILS(rdma_create_qp(id, NULL, &rc), EINVAL);
	CHECK_FAILS(rdma_create_qp(id, NULL, &ud), ENODEV);
	CHECK(!id->qp && !id->send_cq && !ud.send_cq);
	CHECK(rdma_destroy_id(id) == 0);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in in, any = { .sin_family = AF_INET };
	struct rdma_cm_id *id, *other;

	CHECK(argc == 2 && channel);
	in = test_addr(argv[1], 0);
	if (in.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
		localhost(channel, in);
	else
		interface(channel, in);

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB) == 0);
	CHECK(id->ps == RDMA_PS_IPOIB && id->qp_type == IBV_QPT_UD);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&any) == 0);
	CHECK(rdma_get_src_port(id) != 0 && !id->verbs);
	CHECK(rdma_listen(id, 8) == 0);
	/* Its ports are its own. */
	any.sin_port = rdma_get_src_port(id);
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_UDP) == 0);
	CHECK(rdma_bind_addr(other, (struct sockaddr *)&any) == 0);
	CHECK(rdma_destroy_id(other) == 0);
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_IPOIB) == 0);
	CHECK_FAILS(rdma_bind_addr(other, (struct sockaddr *)&any), EADDRINUSE);
	CHECK(rdma_destroy_id(other) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
