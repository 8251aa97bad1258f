/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of calls by the state of their identifier. Calls that Linux refuses in a state get
 * EINVAL, and leave the identifier as it is.
 */
#include "cm.h"

static const char *addr_arg;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *server;
static struct sockaddr_in to;

enum at { IDLE, BOUND, ADDR_RESOLVED, ROUTE_RESOLVED, LISTENING, CONNECTED, DISCONNECTED, STATES };

static const char *const names[STATES] = { "idle", "bound", "address resolved", "route resolved", "listening", "connected", "disconnected" };

static int bind_it(struct rdma_cm_id *id)
{
	struct sockaddr_in in = test_addr(addr_arg, 0);

	return rdma_bind_addr(id, (struct sockaddr *)&in);
}

static int resolve_addr(struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000);
}

static int resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 2000);
}

static int listen_it(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int connect_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .retry_count = 7, .qp_num = 0x77 };

	return rdma_connect(id, &param);
}

static int accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .qp_num = 0x77 };

	return rdma_accept(id, &param);
}

static int reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int reuse(struct rdma_cm_id *id)
{
	int on = 1;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
}

static int ib_path(struct rdma_cm_id *id)
{
	struct ibv_path_data path = { 0 };

	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
}

static int join(struct rdma_cm_id *id)
{
	struct sockaddr_in group = test_addr("239.9.9.9", 0);

	return rdma_join_multicast(id, (struct sockaddr *)&group, NULL);
}

/* The states in which the call is refused. */
#define AT(state) (1u << (state))
#define ALL (AT(STATES) - 1)

static const struct {
	const char *call;
	int (*make)(struct rdma_cm_id *);
	unsigned refused;
} calls[] = {
	{ "rdma_bind_addr", bind_it, ALL & ~AT(IDLE) },
	{ "rdma_resolve_addr", resolve_addr, ALL & ~(AT(IDLE) | AT(BOUND)) },
	{ "rdma_resolve_route", resolve_route, ALL & ~AT(ADDR_RESOLVED) },
	{ "rdma_listen", listen_it, ALL & ~(AT(IDLE) | AT(BOUND)) },
	{ "rdma_connect", connect_it, ALL & ~AT(ROUTE_RESOLVED) },
	{ "rdma_accept", accept_it, ALL },
	{ "rdma_reject", reject, ALL & ~(AT(CONNECTED) | AT(DISCONNECTED)) },
	{ "rdma_disconnect", rdma_disconnect, ALL & ~(AT(CONNECTED) | AT(DISCONNECTED)) },
	{ "rdma_establish", rdma_establish, ALL & ~AT(CONNECTED) },
	{ "RDMA_OPTION_ID_REUSEADDR", reuse, AT(ROUTE_RESOLVED) | AT(LISTENING) | AT(CONNECTED) | AT(DISCONNECTED) },
	{ "RDMA_OPTION_IB_PATH", ib_path, ALL & ~AT(ADDR_RESOLVED) },
	{ "rdma_join_multicast", join, AT(IDLE) | AT(LISTENING) },
};

/* Brings a new identifier into a state; *peer is the other end of a connection. */
static struct rdma_cm_id *brought(enum at at, struct rdma_cm_id **peer)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	*peer = NULL;
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	if (at == BOUND || at == LISTENING)
		CHECK(bind_it(id) == 0);
	if (at == LISTENING)
		CHECK(rdma_listen(id, 1) == 0);
	if (at == IDLE || at == BOUND || at == LISTENING)
		return id;
	CHECK(resolve_addr(id) == 0);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (at == ADDR_RESOLVED)
		return id;
	CHECK(resolve_route(id) == 0);
	test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (at == ROUTE_RESOLVED)
		return id;
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	*peer = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	attr = test_qp(IBV_QPT_RC);
	CHECK(rdma_create_qp(*peer, NULL, &attr) == 0);
	CHECK(rdma_accept(*peer, NULL) == 0);
	test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	if (at == DISCONNECTED) {
		CHECK(rdma_disconnect(id) == 0);
		test_ack(channel, RDMA_CM_EVENT_DISCONNECTED); /* of the peer, which answers */
		CHECK(rdma_disconnect(*peer) == 0);
		test_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	}
	return id;
}

static void give_back(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
}

int main(int argc, char **argv)
{
	int failures = 0;

	CHECK(argc == 2);
	addr_arg = argv[1];
	CHECK((channel = rdma_create_event_channel()));
	server = test_listen(channel, addr_arg, RDMA_PS_TCP);
	to = test_addr(addr_arg, ntohs(rdma_get_src_port(server)));
	for (enum at at = IDLE; at < STATES; at++) {
		struct rdma_cm_id *peer, *id = brought(at, &peer);

		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			if (!(calls[i].refused & AT(at)))
				continue;
			errno = 0;
			int ret = calls[i].make(id), err = errno;

			if (ret != -1 || err != EINVAL) {
				fprintf(stderr, "%s, %s: %d (%s)\n", calls[i].call, names[at], ret, strerror(err));
				failures++;
			}
		}
		give_back(id);
		give_back(peer);
	}

	/* Without an address a listener is at all of IPv4. */
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_listen(id, 1) == 0);
	CHECK(id->route.addr.src_addr.sa_family == AF_INET && rdma_get_src_port(id) != 0);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(rdma_destroy_id(server) == 0);
	CHECK(!test_readable(channel));
	rdma_destroy_event_channel(channel);
	return failures != 0;
}
