/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lifetimes: private data live until the event is acknowledged, an identifier until all its events
 * are. A destroyed identifier leaves nothing in its channel.
 */
#include "cm.h"
#include "descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int acked;

static void *destroy(void *id)
{
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(atomic_load(&acked)); /* not before the acknowledgement */
	return NULL;
}

static struct rdma_cm_id *connecting(struct rdma_event_channel *channel, const char *arg, struct rdma_cm_id *listener,
				     const char *private_data)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_conn_param param = { .private_data = private_data, .private_data_len = strlen(private_data), .retry_count = 7 };
	struct rdma_cm_id *id = test_resolve(channel, arg, listener);

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, &param) == 0);
	return id;
}

/* A connection in synchronous mode that is refused, and all that goes with it. */
static void come_and_go(const char *arg)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_id *listener = test_listen(NULL, arg, RDMA_PS_TCP);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = test_resolve(channel, arg, listener), *request;

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	CHECK(rdma_get_request(listener, &request) == 0);
	CHECK(request->channel != listener->channel);
	CHECK(rdma_destroy_id(request) == 0);
	test_ack(channel, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
	struct rdma_cm_id *listener, *a, *b, *id;
	struct rdma_cm_event *first, *second, *event;
	pthread_t thread;

	CHECK(argc == 2 && server && client);
	listener = test_listen(server, argv[1], RDMA_PS_TCP);
	a = connecting(client, argv[1], listener, "first");
	first = test_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = connecting(client, argv[1], listener, "second");
	second = test_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(first->id != second->id);
	CHECK(memcmp(first->param.conn.private_data, "first", 5) == 0);
	CHECK(memcmp(second->param.conn.private_data, "second", 6) == 0);
	id = second->id;
	CHECK(rdma_ack_cm_event(second) == 0);
	CHECK(memcmp(first->param.conn.private_data, "first", 5) == 0);

	/* The listener stays until the request's event is acknowledged; the request need not. */
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(rdma_destroy_id(first->id) == 0);
	CHECK(pthread_create(&thread, NULL, destroy, listener) == 0);
	/* Give the thread time to do wrong: a destroyed listener's port is free. */
	usleep(20000);
	atomic_store(&acked, 1);
	CHECK(rdma_ack_cm_event(first) == 0);
	pthread_join(thread, NULL);
	CHECK(!test_readable(server));

	/* Both were refused as their identifiers were destroyed. The first one's event goes unseen. */
	test_wait(client);
	rdma_destroy_qp(a);
	CHECK(rdma_destroy_id(a) == 0);
	event = test_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == b);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(!test_readable(client));
	rdma_destroy_ep(b);

	/* Requests that nobody fetched are refused with their listener. */
	listener = test_listen(server, argv[1], RDMA_PS_TCP);
	a = connecting(client, argv[1], listener, "x");
	test_wait(server);
	CHECK(rdma_destroy_id(listener) == 0);
	CHECK(!test_readable(server));
	test_ack(client, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(a);

	/* O_NONBLOCK is obeyed. */
	CHECK(fcntl(client->fd, F_SETFL, fcntl(client->fd, F_GETFL) | O_NONBLOCK) == 0);
	CHECK_FAILS(rdma_get_cm_event(client, &event), EAGAIN);
	CHECK(fcntl(client->fd, F_GETFD) & FD_CLOEXEC);
	rdma_destroy_event_channel(client);
	/* An application that closes its descriptors gets an error, and does not wait for ever. */
	CHECK(close(server->fd) == 0);
	CHECK_FAILS(rdma_get_cm_event(server, &event), EBADF);
	rdma_destroy_event_channel(server);

	/* Nothing stays behind. */
	come_and_go(argv[1]);
	int before = descriptors();
	for (int i = 0; i < 20; i++)
		come_and_go(argv[1]);
	/* The descriptors of an unused device, such as an NTB link, go a moment later. */
	for (int i = 0; i < 500 && descriptors() > before; i++)
		usleep(10000);
	CHECK(descriptors() <= before);
	return 0;
}
