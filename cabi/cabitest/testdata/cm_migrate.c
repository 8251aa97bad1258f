/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_migrate_id(3): events that wait go along, in order; into and out of
 * synchronous mode.
 */
#include "cm.h"

int main(int argc, char **argv)
{
	struct rdma_event_channel *one = rdma_create_event_channel(), *two = rdma_create_event_channel();
	struct rdma_cm_id *listener, *id, *other, *request;
	struct rdma_cm_event *event;
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	CHECK(argc == 2 && one && two);
	listener = test_listen(one, argv[1], RDMA_PS_TCP);
	struct sockaddr_in in = test_addr(argv[1], ntohs(rdma_get_src_port(listener)));

	/* Two identifiers with an event each: one goes with its event. */
	CHECK(rdma_create_id(one, &id, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(one, &other, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000) == 0);
	test_wait(one);
	CHECK(rdma_resolve_addr(other, NULL, (struct sockaddr *)&in, 1000) == 0);
	CHECK(!test_readable(two));
	CHECK(rdma_migrate_id(id, two) == 0);
	CHECK(id->channel == two && test_readable(two));
	event = test_event(two, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(event->id == id && id->verbs);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(!test_readable(two));
	event = test_event(one, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(event->id == other);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_migrate_id(id, two) == 0); /* where it is already */

	/* Later events come on the new channel. */
	CHECK(rdma_resolve_route(id, 1000) == 0);
	test_ack(two, RDMA_CM_EVENT_ROUTE_RESOLVED);

	/* Into synchronous mode: the call waits. */
	CHECK(rdma_migrate_id(other, NULL) == 0);
	CHECK(other->channel != one);
	CHECK(rdma_resolve_route(other, 1000) == 0);
	CHECK(other->event && other->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_FAILS(rdma_migrate_id(other, NULL), EINVAL);
	/* And out of it: the event that the call left is acknowledged. */
	CHECK(rdma_migrate_id(other, one) == 0);
	CHECK(!other->event && other->channel == one);

	/* A listener with requests that wait, onto an event channel of a server thread's. */
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	test_wait(one);
	CHECK(rdma_migrate_id(listener, two) == 0);
	CHECK(!test_readable(one));
	event = test_event(two, RDMA_CM_EVENT_CONNECT_REQUEST);
	request = event->id;
	CHECK(event->listen_id == listener && request->channel == two);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_migrate_id(request, one) == 0);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(request, NULL, &attr) == 0);
	CHECK(rdma_accept(request, NULL) == 0);
	event = test_event(two, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == id);
	CHECK(rdma_ack_cm_event(event) == 0);
	event = test_event(one, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == request);
	CHECK(rdma_ack_cm_event(event) == 0);

	rdma_destroy_qp(id);
	rdma_destroy_qp(request);
	CHECK(rdma_destroy_id(request) == 0 && rdma_destroy_id(id) == 0);
	CHECK(rdma_destroy_id(other) == 0 && rdma_destroy_id(listener) == 0);
	CHECK(!test_readable(one) && !test_readable(two)); /* their events went with them */
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
	return 0;
}
