/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams over UDP: the first ones to a peer, the answers to them, and those too large for a
 * packet of the queue pair.
 */
#include "datagram.h"
#include "watch.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>

/* The most datagrams over UDP that wait for the application. */
#define WAITING_MAX 256

/* Datagrams per call, before other sockets get their turn. */
#define BATCH 64

static socklen_t header_length(const union rs_addr *addr)
{
	return addr->sa.sa_family == AF_INET ? RS_UDP_HEADER_IPV4 : RS_UDP_HEADER_IPV6;
}

ssize_t rs_udp_send(struct rs_datagram *d, struct rs_peer *peer, enum rs_udp_op op,
		    struct rs_cursor *from)
{
	const union rs_addr *local = &peer->ud->local;
	uint8_t packet[RS_DATAGRAM_MAX];
	size_t length = from ? from->left : 0;
	struct rs_udp_header h = {
		.tag = htonl(RS_UDP_TAG),
		.version = local->sa.sa_family == AF_INET ? 4 : 6,
		.op = (uint8_t)op,
		.length = (uint8_t)header_length(local),
		.qpn = htonl(peer->ud->id->qp->qp_num),
	};

	if (length > sizeof(packet) - h.length)
		return -EMSGSIZE;
	/* Fills in our address, as rdma-core does. The receiver uses that of the UDP header. */
	if (h.version == 4)
		h.ipv4 = local->in.sin_addr.s_addr;
	else
		memcpy(h.ipv6, &local->in6.sin6_addr, sizeof(h.ipv6));
	memcpy(packet, &h, h.length);
	if (from)
		rs_cursor_gather(from, packet + h.length, length);
	if (sendto(d->udp, packet, h.length + length, MSG_NOSIGNAL, &peer->addr.sa,
		   rs_addr_length(&peer->addr.sa)) < 0)
		return -errno;
	return (ssize_t)length;
}

/* Returns false if the datagram is not that of an rsocket. */
static bool read_header(const uint8_t *packet, size_t length, const union rs_addr *from,
			struct rs_udp_header *h)
{
	if (length < header_length(from))
		return false;
	memcpy(h, packet, header_length(from));
	return h->tag == htonl(RS_UDP_TAG) &&
	       h->version == (from->sa.sa_family == AF_INET ? 4 : 6) &&
	       h->length == header_length(from);
}

/* Queues a datagram. Without room it is lost, as any datagram may be. */
static void deliver(struct rs_datagram *d, const union rs_addr *from, const uint8_t *data,
		    size_t length)
{
	if (d->from_udp >= WAITING_MAX || !d->may_receive)
		return;
	struct rs_slot *slot = malloc(sizeof(*slot) + length);

	if (!slot)
		return;
	*slot = (struct rs_slot){ .from = *from, .length = (uint32_t)length };
	slot->data = slot->buffer = memcpy(slot + 1, data, length);
	rs_datagram_deliver(d, slot);
	rs_ring(&d->s);
}

void rs_udp_receive(struct rs_datagram *d)
{
	uint8_t packet[RS_DATAGRAM_MAX];

	for (int i = 0; i < BATCH; i++) {
		union rs_addr from = { 0 };
		socklen_t from_length = sizeof(from);
		struct rs_udp_header h;
		ssize_t n = recvfrom(d->udp, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC,
				     &from.sa, &from_length);

		if (n < 0)
			return; /* no more datagrams, or an ICMP error that connect(2) would report */
		if ((size_t)n > sizeof(packet) || !read_header(packet, (size_t)n, &from, &h))
			continue;
		struct rs_peer *peer = rs_peer_from(d, &from);

		if (!peer)
			continue;
		/* Each is answered: the answer before may be lost. */
		if (h.op == RS_UDP_DATA)
			rs_udp_send(d, peer, RS_UDP_CONTROL, NULL);
		rs_peer_told(d, peer, ntohl(h.qpn) & 0xffffff);
		if (h.op == RS_UDP_DATA)
			deliver(d, &from, packet + h.length, (size_t)n - h.length);
	}
}
