/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that gives up before its request is accepted. The kernel's ucma drops the
 * events of such an identifier, whose context is still the listener's, and rdma_accept(3)
 * fails.
 */
#include "cm.h"

static struct rdma_event_channel *server, *client;

/* Asks the listener for a connection, and returns the request. */
static struct rdma_cm_id *ask(const char *arg, struct rdma_cm_id *listener, struct rdma_cm_id **active)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_event *event;
	struct rdma_cm_id *passive;

	*active = test_resolve(client, arg, listener);
	CHECK(rdma_create_qp(*active, NULL, &attr) == 0);
	CHECK(rdma_connect(*active, NULL) == 0);
	event = test_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(event->listen_id == listener && event->id != listener && event->id->context == listener->context);
	passive = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(passive, NULL, &attr) == 0);
	return passive;
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listener, *active, *gone, *passive;
	int iwarp;

	server = rdma_create_event_channel();
	client = rdma_create_event_channel();
	CHECK(argc == 2 && server && client);
	listener = test_listen(server, argv[1], RDMA_PS_TCP);
	listener->context = &listener;

	gone = ask(argv[1], listener, &active);
	iwarp = gone->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	rdma_destroy_ep(active);
	/* The next request comes behind the news of that: it is the next event. */
	passive = ask(argv[1], listener, &active);

	CHECK(rdma_accept(passive, NULL) == 0);
	test_ack(client, RDMA_CM_EVENT_ESTABLISHED);
	test_ack(server, RDMA_CM_EVENT_ESTABLISHED);
	if (iwarp) {
		/* siw finds out when it writes, or later, and then tells by an event. */
		CHECK(rdma_accept(gone, NULL) == 0 || errno == ECONNRESET);
	} else {
		CHECK_FAILS(rdma_accept(gone, NULL), EINVAL);
		CHECK_FAILS(rdma_reject(gone, NULL, 0), EINVAL);
		CHECK(!test_readable(server));
	}
	rdma_destroy_ep(gone);

	CHECK(rdma_disconnect(active) == 0);
	test_ack(server, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	return 0;
}
