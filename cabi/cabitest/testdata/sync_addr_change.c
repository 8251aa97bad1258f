/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A synchronous identifier whose interface gets another hardware address: the next call returns
 * the event that it waits for. The test changes the address once the program says "bound".
 */
#include "cm.h"

int main(int argc, char **argv)
{
	struct sockaddr_in own, peer;
	struct rdma_cm_id *id;
	struct pollfd fd = { .events = POLLIN };

	CHECK(argc == 3);
	own = test_addr(argv[1], 0);
	peer = test_addr(argv[2], 7);
	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&own) == 0);
	CHECK(puts("bound") >= 0 && fflush(stdout) == 0);
	fd.fd = id->channel->fd;
	CHECK(poll(&fd, 1, TIMEOUT_SECONDS * 1000) == 1); /* ADDR_CHANGE */
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 2000) == 0);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(puts("resolved") >= 0);
	return 0;
}
