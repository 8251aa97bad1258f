/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_write_cm_event(3): events of the application, in the order of those of the library. They
 * wake a thread, go with their identifier, and end no call of synchronous mode.
 */
#include "cm.h"
#include "newer.h"

#include <pthread.h>

enum { WAKE_UPS = 1000 };

static struct rdma_event_channel *channel;

static void *wait_for_all(void *arg)
{
	for (uint64_t i = 0; i < WAKE_UPS; i++) {
		struct rdma_cm_event *event = test_event(channel, RDMA_CM_EVENT_USER);

		CHECK(event->id == arg && event_arg(event) == i && event->status == -(int)i);
		CHECK(rdma_ack_cm_event(event) == 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in in = test_addr(argc > 1 ? argv[1] : "", 0);
	struct rdma_event_channel *other;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *sync;
	pthread_t thread;

	CHECK((channel = rdma_create_event_channel()) && (other = rdma_create_event_channel()));
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(pthread_create(&thread, NULL, wait_for_all, id) == 0);
	for (uint64_t i = 0; i < WAKE_UPS; i++)
		CHECK(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, -(int)i, i) == 0);
	CHECK(pthread_join(thread, NULL) == 0);

	/* Behind an event of the library, on the channel that the identifier has. */
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000) == 0);
	test_wait(channel);
	CHECK(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 7, UINT64_MAX) == 0);
	CHECK(rdma_migrate_id(id, other) == 0);
	test_ack(other, RDMA_CM_EVENT_ADDR_RESOLVED);
	event = test_event(other, RDMA_CM_EVENT_USER);
	CHECK(event->status == 7 && event_arg(event) == UINT64_MAX);
	CHECK(strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_USER") == 0);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(!test_readable(other) && !test_readable(channel));

	CHECK(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_write_cm_event(sync, RDMA_CM_EVENT_USER, 7, 0) == 0);
	CHECK(rdma_resolve_addr(sync, NULL, (struct sockaddr *)&in, 1000) == 0);
	CHECK(sync->verbs && sync->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_FAILS(rdma_write_cm_event(sync, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	CHECK(rdma_destroy_id(sync) == 0);
	CHECK_FAILS(rdma_write_cm_event(NULL, RDMA_CM_EVENT_USER, 0, 0), EINVAL);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other);
	return 0;
}
