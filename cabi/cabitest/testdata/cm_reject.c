/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_reject(3) with private data, in both modes; and a port where nobody
 * listens. InfiniBand's REJ has a reason, MPA's Reply none: iw_cm has errnos.
 */
#include "cm.h"

#include <pthread.h>

#define CONSUMER_REJECT 28 /* IBTA, 12.6.7.2 */
#define INVALID_SERVICE_ID 8

static int by_consumer = CONSUMER_REJECT, unserved = INVALID_SERVICE_ID;

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;

static void *refuse_one(void *arg)
{
	struct rdma_cm_event *event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;

	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK_FAILS(rdma_reject(id, NULL, 3), EINVAL);
	if (by_consumer == CONSUMER_REJECT)
		CHECK_FAILS(rdma_reject(id, arg, 255), EINVAL); /* more than a REJ holds */
	CHECK(rdma_reject(id, arg, 3) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_event_channel *mine = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	static char why[255] = "no!";
	pthread_t thread;

	CHECK(argc == 2 && mine);
	channel = rdma_create_event_channel();
	CHECK(channel);
	listener = test_listen(channel, argv[1], RDMA_PS_TCP);

	id = test_resolve(mine, argv[1], listener);
	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
		by_consumer = -ECONNRESET;
		unserved = -ECONNREFUSED;
	}
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(id->qp->state == IBV_QPS_INIT);
	CHECK(pthread_create(&thread, NULL, refuse_one, why) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(mine, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == id && event->status == by_consumer);
	CHECK(event->param.conn.private_data_len >= 3 && memcmp(event->param.conn.private_data, "no!", 3) == 0);
	CHECK(id->qp->state == IBV_QPS_ERR);
	CHECK(rdma_ack_cm_event(event) == 0);
	pthread_join(thread, NULL);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);

	/* Synchronous mode: the call fails and the event says why. */
	id = test_resolve(NULL, argv[1], listener);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(pthread_create(&thread, NULL, refuse_one, why) == 0);
	CHECK_FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == by_consumer);
	CHECK(memcmp(id->event->param.conn.private_data, "no!", 3) == 0);
	pthread_join(thread, NULL);
	rdma_destroy_ep(id);

	/* Nobody listens any more. */
	id = test_resolve(mine, argv[1], listener);
	CHECK(rdma_destroy_id(listener) == 0);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(mine, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == unserved);
	CHECK(rdma_ack_cm_event(event) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(mine);
	rdma_destroy_event_channel(channel);
	return 0;
}
