/* SPDX-License-Identifier: BSD-2-Clause */
/* The peers of a datagram socket, and the paths to them. */
#include "datagram.h"
#include "watch.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Bounds the peers that a socket remembers: any host may send to it. Senders to which the
 * application never sent are forgotten first, as their addresses may be forged.
 */
#ifndef PEERS_MAX /* a test has a smaller one */
#define PEERS_MAX 65536
#endif

#define RESOLVE_TIMEOUT_MS 2000

static struct rs_peer **bucket(struct rs_datagram *d, const union rs_addr *addr)
{
	uint32_t hash;

	if (addr->sa.sa_family == AF_INET) {
		hash = addr->in.sin_addr.s_addr ^ addr->in.sin_port;
	} else {
		const uint32_t *words = addr->in6.sin6_addr.s6_addr32;

		hash = words[0] ^ words[1] ^ words[2] ^ words[3] ^ addr->in6.sin6_port;
	}
	return &d->peers[(hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24) % RS_PEER_BUCKETS];
}

static bool wildcard(const union rs_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

/*
 * Finds the local address for the peer: the one that the socket is bound to, or the choice of the
 * routing table. 0 or a positive errno.
 */
static int local_addr(struct rs_datagram *d, const union rs_addr *peer, union rs_addr *local)
{
	socklen_t length = sizeof(*local);
	int error = 0;

	memset(local, 0, sizeof(*local));
	if (getsockname(d->udp, &local->sa, &length))
		return errno;
	if (!wildcard(local))
		return 0;
	in_port_t port = local->in.sin_port; /* at the same place in both families */
	int probe = socket(peer->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	length = sizeof(*local);
	if (probe < 0 || connect(probe, &peer->sa, rs_addr_length(&peer->sa)) ||
	    getsockname(probe, &local->sa, &length))
		error = errno;
	if (probe >= 0)
		close(probe);
	local->in.sin_port = port;
	return error;
}

/* Returns the list that the peer is in. */
static struct rs_peers *list_of(struct rs_datagram *d, const struct rs_peer *peer)
{
	return peer->stranger ? &d->strangers : &d->used;
}

static void forget(struct rs_datagram *d, struct rs_peer *peer)
{
	struct rs_peer **p = bucket(d, &peer->addr);

	while (*p != peer)
		p = &(*p)->next;
	*p = peer->next;
	TAILQ_REMOVE(list_of(d, peer), peer, used);
	d->peer_count--;
	if (peer->resolver)
		rdma_destroy_id(peer->resolver);
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	free(peer);
}

static void forget_one(struct rs_datagram *d)
{
	struct rs_peer *peer = TAILQ_FIRST(&d->strangers);

	forget(d, peer ? peer : TAILQ_FIRST(&d->used));
}

static struct rs_peer *find(struct rs_datagram *d, const union rs_addr *addr, bool stranger)
{
	struct rs_peer **first = bucket(d, addr), *peer;
	union rs_addr local;

	for (peer = *first; peer; peer = peer->next) {
		if (rs_same_addr(&peer->addr, addr)) {
			TAILQ_REMOVE(list_of(d, peer), peer, used);
			peer->stranger = peer->stranger && stranger;
			TAILQ_INSERT_TAIL(list_of(d, peer), peer, used);
			return peer;
		}
	}
	int error = local_addr(d, addr, &local);
	struct rs_ud *ud = error ? NULL : rs_ud_at(d, &local);

	if (error)
		errno = error;
	peer = ud ? calloc(1, sizeof(*peer)) : NULL;
	if (!peer)
		return NULL;
	if (d->peer_count >= PEERS_MAX)
		forget_one(d);
	peer->addr = *addr;
	peer->stranger = stranger;
	peer->ud = ud;
	peer->next = *first;
	*first = peer;
	TAILQ_INSERT_TAIL(list_of(d, peer), peer, used);
	d->peer_count++;
	return peer;
}

struct rs_peer *rs_peer_at(struct rs_datagram *d, const union rs_addr *addr)
{
	return find(d, addr, false);
}

struct rs_peer *rs_peer_from(struct rs_datagram *d, const union rs_addr *addr)
{
	return find(d, addr, true);
}

/*
 * Returns the index of the path's GID in the table of the port. On Ethernet the RoCEv2 entry is
 * taken where several have the GID.
 */
static uint8_t gid_index(struct rdma_cm_id *id)
{
	const union ibv_gid *gid = &id->route.path_rec->sgid;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	int found = 0;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return 0;
	for (int i = port.gid_tbl_len - 1; i >= 0; i--) {
		if (ibv_query_gid_ex(id->verbs, id->port_num, (uint32_t)i, &entry, 0) ||
		    memcmp(&entry.gid, gid, sizeof(*gid)))
			continue;
		found = i;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			break;
	}
	return (uint8_t)found;
}

static struct ibv_ah *make_ah(struct rs_peer *peer, struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;
	struct ibv_ah_attr attr = {
		.dlid = be16toh(path->dlid),
		.sl = path->sl,
		.static_rate = path->rate,
		.port_num = id->port_num,
	};
	struct ibv_port_attr port;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return NULL;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET || path->hop_limit > 1) {
		attr.is_global = 1;
		attr.grh = (struct ibv_global_route){
			.dgid = path->dgid,
			.flow_label = be32toh(path->flow_label),
			.sgid_index = gid_index(id),
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class,
		};
	}
	return ibv_create_ah(peer->ud->id->qp->pd, &attr);
}

/* The path is resolved again when the peer sends again. */
static void give_up(struct rs_peer *peer)
{
	peer->state = peer->ah ? RS_PEER_KNOWN : RS_PEER_UNKNOWN;
	if (peer->resolver)
		rdma_destroy_id(peer->resolver);
	peer->resolver = NULL;
}

void rs_peer_told(struct rs_datagram *d, struct rs_peer *peer, uint32_t qpn)
{
	union rs_addr local = peer->ud->local;

	peer->qpn = qpn; /* another process may have the port now */
	if (peer->state != RS_PEER_UNKNOWN)
		return;
	if (local.sa.sa_family == AF_INET)
		local.in.sin_port = 0;
	else
		local.in6.sin6_port = 0;
	peer->state = RS_PEER_RESOLVING;
	if (rdma_create_id(d->channel, &peer->resolver, peer, RDMA_PS_UDP) ||
	    rdma_resolve_addr(peer->resolver, &local.sa, &peer->addr.sa, RESOLVE_TIMEOUT_MS))
		give_up(peer);
}

void rs_peer_events(struct rs_datagram *d)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(d->channel, &event)) {
		struct rs_peer *peer = event->id->context;
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		if (!peer || !peer->resolver || type == RDMA_CM_EVENT_ADDR_CHANGE)
			continue;
		if (type == RDMA_CM_EVENT_ADDR_RESOLVED &&
		    !rdma_resolve_route(peer->resolver, RESOLVE_TIMEOUT_MS))
			continue;
		if (type == RDMA_CM_EVENT_ROUTE_RESOLVED && peer->resolver->route.path_rec)
			peer->ah = make_ah(peer, peer->resolver);
		give_up(peer); /* resolution has ended */
	}
}

void rs_peers_free(struct rs_datagram *d)
{
	while (d->peer_count)
		forget_one(d);
}
