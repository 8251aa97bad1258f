/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session over a connection of the manager's, beside a listener that strangers
 * flood, which refuses them; and another session when they are gone.
 *
 * Usage: flood_cm ADDRESS
 */
#define _GNU_SOURCE
#include "cm.h"
#include "flood.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MINE "mine"

static uint8_t *memory, out[REGION], round_;
static _Atomic uint32_t rkey;
static _Atomic long strangers;
static struct rdma_event_channel *channel;

/* The offset of our private data in a request: behind the system's. */
static int is_mine(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;

	return p->private_data_len >= sizeof(MINE) && memcmp(p->private_data, MINE, sizeof(MINE)) == 0;
}

static void accept_mine(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7 };
	struct ibv_mr *mr;

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(mr = rdma_reg_write(id, memory, REGION));
	rkey = mr->rkey;
	CHECK(rdma_accept(id, &param) == 0);
}

static void *serve(void *unused)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(channel, &event) == 0) {
		struct rdma_cm_id *id = event->id;
		int request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST, mine = request && is_mine(event);

		rdma_ack_cm_event(event);
		if (mine) {
			accept_mine(id);
		} else if (request) {
			strangers++;
			rdma_reject(id, NULL, 0); /* which may be too late */
			rdma_destroy_id(id);
		}
	}
	return unused;
}

/* A connection to our own listener. */
static struct rdma_cm_id *connect_mine(const char *addr, struct rdma_cm_id *listener)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7,
		.private_data = MINE, .private_data_len = sizeof(MINE),
	};
	struct rdma_cm_id *id = test_resolve(NULL, addr, listener);

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, &param) == 0);
	return id;
}

/* Writes all of the memory, and looks at it until it has come. */
static void write_all(void *arg)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	struct rdma_cm_id *id = arg;
	static struct ibv_mr *mr;
	struct ibv_wc wc;

	if (!mr)
		CHECK(mr = rdma_reg_msgs(id, out, REGION));
	memset(out, ++round_, REGION);
	CHECK(rdma_post_write(id, NULL, out, REGION, mr, IBV_SEND_SIGNALED, (uintptr_t)memory, rkey) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
	for (int i = 0; memcmp(out, memory, REGION) != 0; i++) {
		CHECK(i < 10000);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listener, *id;
	pthread_t thread;

	CHECK(argc == 2);
	limit();
	memory = guarded();
	CHECK(channel = rdma_create_event_channel());
	listener = test_listen(channel, argv[1], RDMA_PS_TCP);
	CHECK(pthread_create(&thread, NULL, serve, NULL) == 0);
	id = connect_mine(argv[1], listener);
	for (int i = 0; i < 20; i++)
		write_all(id);
	be_flooded(ntohs(rdma_get_src_port(listener)), memory, write_all, id);
	id = connect_mine(argv[1], listener);
	write_all(id);
	check_guards(memory);
	printf("%ld\n", strangers);
	return 0;
}
