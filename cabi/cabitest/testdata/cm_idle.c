/* SPDX-License-Identifier: BSD-2-Clause */
/* A listener and 200 connections from the program to itself, which then does nothing. */
#include "cm.h"

#include <unistd.h>

#define CONNECTIONS 200

int main(int argc, char **argv)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_event_channel *passive, *active;
	struct rdma_cm_id *listener;

	CHECK(argc == 2);
	passive = rdma_create_event_channel();
	active = rdma_create_event_channel();
	CHECK(passive && active);
	listener = test_listen(passive, argv[1], RDMA_PS_TCP);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct rdma_cm_id *id = test_resolve(active, argv[1], listener), *peer;
		struct rdma_cm_event *event;

		CHECK(rdma_create_qp(id, NULL, &attr) == 0);
		CHECK(rdma_connect(id, &param) == 0);
		event = test_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		peer = event->id;
		CHECK(rdma_ack_cm_event(event) == 0);
		CHECK(rdma_create_qp(peer, NULL, &attr) == 0);
		CHECK(rdma_accept(peer, &param) == 0);
		test_ack(active, RDMA_CM_EVENT_ESTABLISHED);
		test_ack(passive, RDMA_CM_EVENT_ESTABLISHED);
	}
	puts("idle");
	fflush(stdout);
	CHECK(getchar() == EOF);
	_exit(0); /* the end of a program is not under test */
}
