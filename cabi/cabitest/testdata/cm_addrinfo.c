/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo(3).
 */
#define _GNU_SOURCE /* EAI_ADDRFAMILY */
#include "cm.h"
#include "newer.h"

#include <netdb.h>

static struct rdma_addrinfo *look_up(const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *res = NULL;

	CHECK(rdma_getaddrinfo(node, service, hints, &res) == 0);
	CHECK(res);
	return res;
}

static int is(const struct sockaddr *addr, const char *text, int port)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	char buf[64];

	CHECK(addr && addr->sa_family == AF_INET);
	return strcmp(inet_ntop(AF_INET, &in->sin_addr, buf, sizeof(buf)), text) == 0 && ntohs(in->sin_port) == port;
}

/* The same with an event at its end, on a channel and in synchronous mode. */
static void resolve(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = {.ai_flags = RAI_DNS | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP}, *res = NULL;
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK_FAILS(rdma_query_addrinfo(id, &res), ENOENT);
	CHECK(rdma_resolve_addrinfo(id, "127.0.0.1", "4242", &hints) == 0);
	CHECK(test_readable(channel));
	CHECK_FAILS(rdma_resolve_addrinfo(id, "127.0.0.1", "4242", &hints), EBUSY);
	test_ack(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	CHECK(rdma_query_addrinfo(id, &res) == 0);
	CHECK(is(res->ai_dst_addr, "127.0.0.1", 4242));
	rdma_freeaddrinfo(res);
	CHECK_FAILS(rdma_query_addrinfo(id, &res), ENOENT);

	/* An unknown name: there is no event, and another try is possible. */
	CHECK_FAILS(rdma_resolve_addrinfo(id, "localhost", NULL, &hints), EADDRNOTAVAIL);
	CHECK_FAILS(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	hints.ai_flags = RAI_SA;
	CHECK_FAILS(rdma_resolve_addrinfo(id, NULL, "service", &hints), EOPNOTSUPP);
	CHECK(!test_readable(channel));
	CHECK(rdma_resolve_addrinfo(id, "127.0.0.1", "4242", NULL) == 0);
	CHECK(rdma_destroy_id(id) == 0); /* with its event and its result */
	CHECK(!test_readable(channel));

	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addrinfo(id, "127.0.0.1", "4242", NULL) == 0);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	CHECK(rdma_query_addrinfo(id, &res) == 0);
	CHECK(is(res->ai_dst_addr, "127.0.0.1", 4242));
	rdma_freeaddrinfo(res);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	CHECK_FAILS(rdma_resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_query_addrinfo(NULL, &res), EINVAL);
}

int main(void)
{
	struct sockaddr_in src = test_addr("127.0.0.1", 1111), dst = test_addr("127.0.0.2", 2222);
	struct rdma_addrinfo hints, *res;

	/* Active: the destination is looked up. */
	memset(&hints, 0, sizeof(hints));
	hints.ai_port_space = RDMA_PS_TCP;
	res = look_up("127.0.0.1", "4242", &hints);
	CHECK(is(res->ai_dst_addr, "127.0.0.1", 4242) && res->ai_dst_len == sizeof(src));
	CHECK(!res->ai_src_addr && !res->ai_src_len && !res->ai_flags && !res->ai_next);
	CHECK(res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP && res->ai_family == AF_INET);
	CHECK(!res->ai_route_len && !res->ai_connect_len);
	rdma_freeaddrinfo(res);

	/* With a source of the hints. */
	hints.ai_src_addr = (struct sockaddr *)&src;
	hints.ai_src_len = sizeof(src);
	res = look_up("127.0.0.1", "4242", &hints);
	CHECK(is(res->ai_src_addr, "127.0.0.1", 1111) && res->ai_src_addr != (struct sockaddr *)&src);
	rdma_freeaddrinfo(res);

	/* Passive, datagrams, without a node: any address. */
	memset(&hints, 0, sizeof(hints));
	hints.ai_flags = RAI_PASSIVE | RAI_FAMILY;
	hints.ai_family = AF_INET;
	hints.ai_port_space = RDMA_PS_UDP;
	res = look_up(NULL, "4242", &hints);
	CHECK(is(res->ai_src_addr, "0.0.0.0", 4242) && !res->ai_dst_addr && res->ai_flags == RAI_PASSIVE);
	CHECK(res->ai_qp_type == IBV_QPT_UD && res->ai_port_space == RDMA_PS_UDP);
	rdma_freeaddrinfo(res);

	/* The family is a hint only with RAI_FAMILY. */
	hints.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_NOROUTE;
	hints.ai_family = AF_INET6;
	hints.ai_port_space = RDMA_PS_TCP;
	res = look_up("::1", "4242", &hints);
	CHECK(res->ai_family == AF_INET6 && res->ai_dst_len == sizeof(struct sockaddr_in6));
	rdma_freeaddrinfo(res);
	int ret = rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res);
	CHECK(ret == EAI_ADDRFAMILY || ret == EAI_NONAME);
	hints.ai_flags &= ~RAI_FAMILY;
	rdma_freeaddrinfo(look_up("127.0.0.1", NULL, &hints));
	CHECK(rdma_getaddrinfo("localhost", NULL, &hints, &res) == EAI_NONAME);

	/* The types of hints stand. */
	memset(&hints, 0, sizeof(hints));
	hints.ai_qp_type = IBV_QPT_XRC_SEND;
	hints.ai_port_space = RDMA_PS_IB;
	res = look_up("127.0.0.1", NULL, &hints);
	CHECK(res->ai_qp_type == IBV_QPT_XRC_SEND && res->ai_port_space == RDMA_PS_IB);
	rdma_freeaddrinfo(res);

	/* Without names the hints' addresses are the answer (libfabric asks so). */
	memset(&hints, 0, sizeof(hints));
	hints.ai_src_addr = (struct sockaddr *)&src;
	hints.ai_src_len = sizeof(src);
	hints.ai_dst_addr = (struct sockaddr *)&dst;
	hints.ai_dst_len = sizeof(dst);
	hints.ai_family = AF_INET;
	hints.ai_qp_type = IBV_QPT_RC;
	hints.ai_port_space = RDMA_PS_TCP;
	hints.ai_flags = RAI_PASSIVE;
	res = look_up(NULL, NULL, &hints);
	CHECK(is(res->ai_src_addr, "127.0.0.1", 1111) && is(res->ai_dst_addr, "127.0.0.2", 2222));
	CHECK(res->ai_flags == RAI_PASSIVE && res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP);
	rdma_freeaddrinfo(res);

	/* No hints at all. */
	res = look_up("127.0.0.1", "4242", NULL);
	CHECK(is(res->ai_dst_addr, "127.0.0.1", 4242));
	rdma_freeaddrinfo(res);

	CHECK_FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK_FAILS(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	rdma_freeaddrinfo(NULL);
	resolve();
	return 0;
}
