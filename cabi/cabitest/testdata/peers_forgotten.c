/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram socket forgets the peer that has been idle for longest, and first one to which nothing
 * was sent: TestDatagramPeersAreBounded.
 */
#include "../../rsocket/peer.c"

#include <stdio.h>

#define CHECK(x)                                                        \
	do {                                                            \
		if (!(x)) {                                             \
			fprintf(stderr, "%d: %s\n", __LINE__, #x);      \
			exit(1);                                        \
		}                                                       \
	} while (0)

_Static_assert(PEERS_MAX == 4, "compiled with -DPEERS_MAX=4");

/* The socket has one queue pair, and no path is ever resolved. */
struct rs_ud *rs_ud_at(struct rs_datagram *d, const union rs_addr *local)
{
	(void)local;
	return d->uds;
}

bool rs_same_addr(const union rs_addr *a, const union rs_addr *b)
{
	return !memcmp(&a->in, &b->in, sizeof(a->in));
}

socklen_t rs_addr_length(const struct sockaddr *addr)
{
	(void)addr;
	return sizeof(struct sockaddr_in);
}

static struct rs_datagram socket_of_test;

static union rs_addr address(uint32_t host)
{
	return (union rs_addr){ .in = { .sin_family = AF_INET,
					.sin_port = htons(9),
					.sin_addr.s_addr = htonl(0x7f000000 | host) } };
}

/* The application sends to the host. */
static struct rs_peer *at(uint32_t host)
{
	union rs_addr addr = address(host);

	return rs_peer_at(&socket_of_test, &addr);
}

/* The host sends. */
static struct rs_peer *from(uint32_t host)
{
	union rs_addr addr = address(host);

	return rs_peer_from(&socket_of_test, &addr);
}

static bool listed(const struct rs_peers *list, uint32_t host)
{
	struct rs_peer *peer;

	TAILQ_FOREACH(peer, list, used) {
		if (peer->addr.in.sin_addr.s_addr == htonl(0x7f000000 | host))
			return true;
	}
	return false;
}

static bool remembered(uint32_t host)
{
	return listed(&socket_of_test.used, host) || listed(&socket_of_test.strangers, host);
}

int main(void)
{
	struct rs_datagram *d = &socket_of_test;
	struct rs_ud ud = { 0 };
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	TAILQ_INIT(&d->used);
	TAILQ_INIT(&d->strangers);
	d->uds = &ud;
	d->udp = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(d->udp >= 0 && !bind(d->udp, (struct sockaddr *)&any, sizeof(any)));

	for (uint32_t host = 1; host <= PEERS_MAX; host++)
		CHECK(at(host));
	struct rs_peer *first = at(1); /* used again: the second is idle for longest now */

	first->qpn = 42;
	CHECK(at(5) && d->peer_count == PEERS_MAX);
	CHECK(!remembered(2) && remembered(1) && remembered(3) && remembered(4));
	CHECK(at(1) == first && at(1)->qpn == 42);
	for (uint32_t host = 6; host < 100000; host++) /* any host may send */
		CHECK(at(host));
	CHECK(d->peer_count == PEERS_MAX && !remembered(1));

	/* A flood of senders displaces none but senders, if there are any. */
	CHECK(from(1) && !remembered(99996) && from(2) && !remembered(1) && remembered(2));
	for (uint32_t host = 3; host < 100000 - PEERS_MAX; host++)
		CHECK(from(host));
	CHECK(d->peer_count == PEERS_MAX);
	for (uint32_t host = 99997; host < 100000; host++)
		CHECK(remembered(host));
	/* A peer that answers stays, and a sender that is answered becomes one. */
	CHECK(from(99997) && from(1) && remembered(99997) && remembered(1));
	CHECK(at(1) && from(2) && remembered(1) && !remembered(99998) && remembered(99999));
	rs_peers_free(d);
	CHECK(!d->peer_count && TAILQ_EMPTY(&d->used) && TAILQ_EMPTY(&d->strangers));
	for (int i = 0; i < RS_PEER_BUCKETS; i++)
		CHECK(!d->peers[i]);
	return 0;
}
