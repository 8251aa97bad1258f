/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork: a channel made before it is good after it, on both sides, if the program had not used it. A
 * channel used before is dead in the child and does not crash.
 */
#include "cm.h"

#include <fcntl.h>
#include <sys/wait.h>

static void use(struct rdma_event_channel *channel, const char *arg)
{
	struct rdma_cm_id *listener = test_listen(channel, arg, RDMA_PS_TCP);
	struct rdma_cm_id *id = test_resolve(channel, arg, listener);

	CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/*
 * A channel that neither process has used before the fork: a child that reads it first
 * finds no event of the parent's, and takes none away.
 */
static void read_first(const char *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in in = test_addr(arg, 1);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int waits[2];
	pid_t child;
	char c;

	CHECK(channel && !pipe(waits) && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(read(waits[0], &c, 1) == 1);
		CHECK_FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
		rdma_destroy_event_channel(channel);
		_exit(0);
	}
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000) == 0);
	test_wait(channel);
	CHECK(write(waits[1], "", 1) == 1);
	wait_for(child);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *fresh = rdma_create_event_channel(), *used = rdma_create_event_channel(), *own;
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener, *id;
	pid_t child;

	CHECK(argc == 2 && fresh && used);
	listener = test_listen(used, argv[1], RDMA_PS_TCP);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		use(fresh, argv[1]);
		CHECK_FAILS(rdma_create_id(used, &id, NULL, RDMA_PS_TCP), EIO);
		CHECK_FAILS(rdma_get_cm_event(used, &event), EIO);
		CHECK_FAILS(rdma_listen(listener, 1), EIO);
		CHECK(rdma_destroy_id(listener) == 0); /* the memory; the parent listens on */
		rdma_destroy_event_channel(used);
		own = rdma_create_event_channel();
		CHECK(own);
		use(own, argv[1]);
		rdma_destroy_event_channel(own);
		_exit(0);
	}
	use(fresh, argv[1]);
	wait_for(child);
	id = test_resolve(fresh, argv[1], listener);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(used, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(rdma_destroy_id(event->id) == 0);
	CHECK(rdma_ack_cm_event(event) == 0);
	test_ack(fresh, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(used);
	rdma_destroy_event_channel(fresh);
	read_first(argv[1]);
	return 0;
}
