/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram socket: one UDP socket, whose descriptor is its number, and a UD
 * queue pair for each local address that it sends from or is found at.
 *
 *	application ──first datagrams──► UDP socket ─────► UDP socket, the service
 *	                                                     │ answers with its number
 *	application ──later ones───────► UD queue pair ──► UD queue pair
 *
 * A peer is known by its UDP address. Datagrams go to its UDP socket, behind a header with our
 * queue pair's number, at first. Once its answer has told its own number and the path is resolved,
 * they go to its queue pair. Datagrams too large for the path go to the socket for good.
 *
 * Everything is guarded by s.mu, unless it says otherwise.
 */
#ifndef VERBENA_RSOCKET_DATAGRAM_H
#define VERBENA_RSOCKET_DATAGRAM_H

#include "cursor.h"
#include "socket.h"
#include "wire.h"

#include <netinet/in.h>
#include <sys/queue.h>

/* The buffer of rdma-core's sockets, for sending and for receiving, headers included. */
#define RS_DATAGRAM_MAX 2048u

union rs_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct rs_datagram;

/* A datagram that the application has not read yet, or room for one. */
struct rs_slot {
	struct rs_slot *next;
	struct rs_ud *ud; /* the queue pair to post it to again; NULL: it came over UDP, and is freed */
	union rs_addr from;
	uint8_t *data; /* the data, in the buffer */
	uint32_t length;
	uint8_t *buffer;
};

/* A UD queue pair at a local address. */
struct rs_ud {
	struct rs_ud *next;
	union rs_addr local;
	struct rs_ud_header header; /* precedes each datagram that it sends */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	uint32_t mtu; /* bytes that a packet of the port holds */
	uint32_t inline_data;

	uint8_t *memory; /* the memory of send and receive slots */
	struct ibv_mr *mr;
	struct rs_slot *slots;	/* receiving */
	uint32_t *free_sends; /* a stack of indices */
	uint32_t sends_free;
};

enum rs_peer_state {
	RS_PEER_UNKNOWN,   /* its number is unknown: send over UDP */
	RS_PEER_RESOLVING, /* its number is known, its path is not: send over UDP */
	RS_PEER_KNOWN,	   /* send over the queue pair */
};

struct rs_peer {
	struct rs_peer *next; /* in its bucket */
	TAILQ_ENTRY(rs_peer) used;
	bool stranger; /* the application has never sent to it */
	union rs_addr addr;
	struct rs_ud *ud;
	enum rs_peer_state state;
	uint32_t qpn;
	struct ibv_ah *ah;
	struct rdma_cm_id *resolver; /* while RESOLVING */
};

#define RS_PEER_BUCKETS 256

struct rs_datagram {
	struct rs_socket s;
	pthread_mutex_t send_mu; /* serialises senders; lock order: send_mu, s.mu */

	/* immutable */
	int udp;
	struct rdma_event_channel *channel;

	bool started; /* bound, and watched by the service */
	bool may_receive, may_send;
	uint32_t send_buffer, receive_buffer;
	uint32_t send_queue, receive_queue;
	uint32_t inline_data;

	struct rs_ud *uds;
	struct rs_peer *peers[RS_PEER_BUCKETS];
	TAILQ_HEAD(rs_peers, rs_peer) used, strangers; /* the longest idle one first */
	unsigned peer_count;
	union rs_addr connected; /* family 0: not connected */

	struct rs_slot *head, *tail; /* datagrams for the application */
	unsigned from_udp;	     /* their number */
	struct rs_ud *sending;	     /* the queue pair whose send slot a sender waits for */
};

static inline struct rs_datagram *rs_datagram(struct rs_socket *s)
{
	return (struct rs_datagram *)s;
}

/* datagram.c */

/* Returns the number to be, or a negative errno; *s has one reference. */
int rs_datagram_new(int domain, struct rs_socket **s);
/* Binds the socket if it is not bound, and has the service watch it. 0 or a negative errno. */
int rs_datagram_start(struct rs_datagram *d);
bool rs_same_addr(const union rs_addr *a, const union rs_addr *b);
/* Queues a datagram for the application. The slot belongs to the queue from then on. */
void rs_datagram_deliver(struct rs_datagram *d, struct rs_slot *slot);

/* ud.c */

/* Returns the queue pair at a local address, made if there is none. NULL: errno. */
struct rs_ud *rs_ud_at(struct rs_datagram *d, const union rs_addr *local);
void rs_ud_free(struct rs_datagram *d, struct rs_ud *ud);
/* Frees the slot. */
void rs_ud_repost(struct rs_slot *slot);
void rs_ud_progress(struct rs_datagram *d, struct rs_ud *ud);
/*
 * Sends the rest of from to a peer whose path is known. A send slot is free. 0 or a negative errno.
 */
int rs_ud_send(struct rs_peer *peer, struct rs_cursor *from);

/* peer.c */

/*
 * Returns the peer at addr, made if there is none: one to which the application sends, or one from
 * which a datagram came. NULL: errno. The socket may forget the peer by the next call.
 */
struct rs_peer *rs_peer_at(struct rs_datagram *d, const union rs_addr *addr);
struct rs_peer *rs_peer_from(struct rs_datagram *d, const union rs_addr *addr);
/* Notes the number of the peer's queue pair, which the peer has sent. */
void rs_peer_told(struct rs_datagram *d, struct rs_peer *peer, uint32_t qpn);
/* Takes the events of path resolution. The service calls it. */
void rs_peer_events(struct rs_datagram *d);
void rs_peers_free(struct rs_datagram *d);

/* udp.c */

/* Returns the number of bytes of the application sent, or a negative errno. */
ssize_t rs_udp_send(struct rs_datagram *d, struct rs_peer *peer, enum rs_udp_op op,
		    struct rs_cursor *from);
/* Takes the datagrams that came over UDP. The service calls it. */
void rs_udp_receive(struct rs_datagram *d);

#endif
