/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes: rdma_bind_addr(3), rdma_resolve_addr(3),
 * rdma_resolve_route(3), rdma_get_src_port(3) and their fields of rdma_cm_id.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* "Exactly", in the selectors of path records: IBTA 15.2.5.16. */
#define SELECT_EXACTLY 2
#define HOP_LIMIT 64

socklen_t cm_addrlen(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0; /* also AF_IB: there are no InfiniBand links */
	}
}

/* Copies an address of a family that is served. */
static void copy_addr(struct sockaddr_storage *to, const struct sockaddr_storage *from)
{
	socklen_t len = cm_addrlen((const struct sockaddr *)from);

	if (len) {
		memset(to, 0, sizeof(*to));
		memcpy(to, from, len);
	}
}

/* Writes the path record. Over Ethernet there is one; its LIDs and SL mean nothing. */
static int fill_path(struct cm_id *id, const struct vb_cm_route *route)
{
	struct ibv_sa_path_rec *path = id->id.route.path_rec;

	if (!path) {
		path = malloc(sizeof(*path));
		if (!path)
			return ENOMEM;
	}
	memset(path, 0, sizeof(*path));
	path->sgid = route->sgid;
	path->dgid = route->dgid;
	path->hop_limit = HOP_LIMIT;
	path->traffic_class = route->traffic_class;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htons(route->pkey);
	path->mtu_selector = SELECT_EXACTLY;
	path->mtu = route->mtu;
	path->rate_selector = SELECT_EXACTLY;
	path->rate = id->device ? id->device->rate : IBV_RATE_MAX;
	path->packet_life_time_selector = SELECT_EXACTLY;
	path->packet_life_time = route->packet_life_time;
	id->id.route.path_rec = path;
	id->id.route.num_paths = 1;
	return 0;
}

/* Binds the identifier to the device that the engine chose. */
static int bind_device(struct cm_id *id, const struct vb_cm_route *route)
{
	struct ibv_pd *pd;
	int err;

	if (id->device || id->any_device || !route->device[0])
		return 0;
	err = cm_device_open(route->device, &id->device);
	if (!err)
		err = cm_device_pd(id->device, &pd);
	if (err) {
		id->device = NULL;
		return err;
	}
	id->id.verbs = id->device->verbs;
	id->id.port_num = route->port_num;
	if (!id->id.pd)
		id->id.pd = pd;
	return 0;
}

int cm_query_route(struct cm_id *id)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct vb_cm_route route;
	int err;

	memset(&route, 0, sizeof(route));
	err = id->engine->cm_route(id->handle, &route);
	if (err)
		return err;
	copy_addr(&addr->src_storage, &route.src);
	copy_addr(&addr->dst_storage, &route.dst);
	err = bind_device(id, &route);
	if (err)
		return err;
	if (id->id.verbs) {
		addr->addr.ibaddr.sgid = route.sgid;
		addr->addr.ibaddr.dgid = route.dgid;
		addr->addr.ibaddr.pkey = htons(route.pkey);
	}
	return route.have_path && id->id.verbs ? fill_path(id, &route) : 0;
}

/*
 * Reports whether a program means "any device" by an address. libfabric binds an identifier to
 * localhost without a port, and then uses only the device that it gets. The kernel binds it to its
 * first device, whichever its interface. Here the identifier stays unbound, as with the wildcard
 * address, because libfabric skips the device of the loopback interface.
 */
static int names_no_device(const struct rdma_cm_id *id, const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	if (id->ps != RDMA_PS_TCP)
		return 0;
	if (addr->sa_family == AF_INET)
		return in->sin_port == 0 && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return in6->sin6_port == 0 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr),
			   (id, addr))
{
	int err;

	if (!id || !cm_addrlen(addr))
		return cm_fail(EINVAL);
	cm_id_of(id)->any_device = names_no_device(id, addr);
	err = cm_id_of(id)->engine->cm_bind(cm_id_of(id)->handle, addr);
	if (!err)
		err = cm_query_route(cm_id_of(id));
	return cm_result(err);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_resolve_addr,
	(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms),
	(id, src, dst, timeout_ms))
{
	int err;

	if (!id || !cm_addrlen(dst) || (src && !cm_addrlen(src)))
		return cm_fail(EINVAL);
	cm_id_of(id)->any_device = 0;
	err = cm_id_of(id)->engine->cm_resolve_addr(cm_id_of(id)->handle, src, dst, timeout_ms);
	if (err)
		return cm_fail(err);
	memcpy(&id->route.addr.dst_storage, dst, cm_addrlen(dst));
	return cm_complete(id);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms),
			   (id, timeout_ms))
{
	int err;

	if (!id)
		return cm_fail(EINVAL);
	err = cm_id_of(id)->engine->cm_resolve_route(cm_id_of(id)->handle, timeout_ms);
	return err ? cm_fail(err) : cm_complete(id);
}

static __be16 port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)addr)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	default:
		return 0;
	}
}

VB_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return id ? port(&id->route.addr.src_addr) : 0;
}

VB_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return id ? port(&id->route.addr.dst_addr) : 0;
}
