/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application that closes all descriptors, the event channel's too, while it
 * listens and is about to connect: each call returns, and the process lives.
 */
#include "cm.h"

#include <unistd.h>

/* Longer than the Go runtime leaves its poller alone. */
#define A_WHILE_US 100000

int main(int argc, char **argv)
{
	const char *arg = argc > 1 ? argv[1] : "127.0.0.1";
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, arg, RDMA_PS_TCP);
	struct rdma_cm_id *id = test_resolve(channel, arg, listener);
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_event *event;

	alarm(120);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	usleep(A_WHILE_US);
	rdma_connect(id, &param); /* whatever it says */
	CHECK(rdma_get_cm_event(channel, &event) == -1);
	usleep(A_WHILE_US);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	usleep(A_WHILE_US);
	return 0;
}
