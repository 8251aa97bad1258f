/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a connection in one process, for the test programs of the connection manager. Each
 * program takes the address to use as its argument.
 */
#ifndef TEST_CM_H
#define TEST_CM_H

#include "check.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The address of an argument with a port, which is in host byte order. */
static inline struct sockaddr_in test_addr(const char *arg, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK(inet_pton(AF_INET, arg, &in.sin_addr) == 1);
	return in;
}

static inline struct ibv_qp_init_attr test_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16 },
		.sq_sig_all = 1,
	};

	return attr;
}

/* Takes the next event of a channel, which must be of a type and without fault. */
static inline struct rdma_cm_event *test_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;

	CHECK(rdma_get_cm_event(channel, &event) == 0);
	if (event->event != type) {
		fprintf(stderr, "got %s (%d), want %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
		_exit(1);
	}
	return event;
}

static inline void test_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	CHECK(rdma_ack_cm_event(test_event(channel, type)) == 0);
}

static inline int test_readable(struct rdma_event_channel *channel)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* Waits until the channel's descriptor is readable. */
static inline void test_wait(struct rdma_event_channel *channel)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	CHECK(poll(&fd, 1, TIMEOUT_SECONDS * 1000) == 1);
}

/* A listener on a port of the system's choice. */
static inline struct rdma_cm_id *test_listen(struct rdma_event_channel *channel, const char *arg, enum rdma_port_space ps)
{
	struct sockaddr_in in = test_addr(arg, 0);
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, ps) == 0);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&in) == 0);
	CHECK(rdma_listen(id, 8) == 0);
	CHECK(rdma_get_src_port(id) != 0);
	return id;
}

/* An identifier that has its route to a listener. */
static inline struct rdma_cm_id *test_resolve(struct rdma_event_channel *channel, const char *arg, struct rdma_cm_id *listener)
{
	struct sockaddr_in in = test_addr(arg, ntohs(rdma_get_src_port(listener)));
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, listener->ps) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000) == 0);
	if (channel)
		test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	if (channel)
		test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

#endif
