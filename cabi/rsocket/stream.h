/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream: a TCP-like socket over one RC queue pair.
 *
 *	sender                                    receiver
 *	  sbuf ──RDMA WRITE with immediate──►       rbuf     two halves, a ring
 *	  table[2] ◄──RDMA WRITE with immediate──   which half may be written next
 *
 * Each side owns a receive buffer of two halves and tells the other where the
 * next free half is by writing into its table (credits.c). Data fills one half
 * to its last byte before it goes on in the next, so what arrives is a ring of
 * bytes. The immediate data says how many bytes came. A second limit, credits,
 * keeps the sender from having more messages under way than there are receives
 * posted.
 *
 * Control messages (credits, shutdown, keep-alive) need no credit: up to
 * RS_CONTROL_SLOTS of them are under way, and a receiver short of receives
 * answers RNR until it has some. iWARP has no RNR: there a receiver has some to
 * spare, and a sender of data leaves a few of its credits to the others.
 *
 *	IDLE ─► RESOLVING_ADDR ─► RESOLVING_ROUTE ─► CONNECTING ─► CONNECTED ─► DISCONNECTED
 *	  └─► LISTENING        (of a listener:)      ACCEPTING ──►     └──────► FAILED
 */
#ifndef VERBENA_RSOCKET_STREAM_H
#define VERBENA_RSOCKET_STREAM_H

#include "cursor.h"
#include "socket.h"
#include "wire.h"

#include <infiniband/sa.h>

enum rs_state {
	RS_IDLE,	    /* made; perhaps bound */
	RS_LISTENING,	    /* rlisten */
	RS_RESOLVING_ADDR,  /* rconnect: asked rdma_resolve_addr; left by its event */
	RS_RESOLVING_ROUTE, /* asked rdma_resolve_route; as above */
	RS_CONNECTING,	    /* sent REQ; left by ESTABLISHED or a refusal */
	RS_ACCEPTING,	    /* sent REP; left by ESTABLISHED */
	RS_CONNECTED,	    /* either half may be shut */
	RS_DISCONNECTED,    /* both halves are shut: by a message, or the peer is gone */
	RS_FAILED,	    /* error says why */
};

#define RS_CONTROL_SLOTS 4

/* What the last 8 bits of wr_id say of a work request. The rest is bytes of sbuf, for those that take any. */
enum rs_work {
	RS_WORK_RECEIVE,
	RS_WORK_DATA,	 /* data, riowrite(3)'s and iomap entries: a slot of the send queue, bytes of sbuf */
	RS_WORK_CONTROL, /* a control slot */
	RS_WORK_DISCONNECT, /* likewise; the last message */
};

struct rs_mapping; /* iomap.c */

struct rs_window { /* a piece of the peer's receive buffer */
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct rs_stream {
	struct rs_socket s;

	/* Serialise senders and receivers. Taken before s.mu. */
	pthread_mutex_t send_mu;
	pthread_mutex_t receive_mu;

	/* immutable until the last reference goes */
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel;

	/* The rest is guarded by s.mu. */
	enum rs_state state;
	bool may_receive; /* the peer has not shut its half, nor we ours */
	bool may_send;
	bool established;  /* was CONNECTED, whatever it is now */
	bool connect_told; /* a second rconnect is EISCONN */
	int error;	   /* SO_ERROR */
	int retries;
	struct sockaddr_storage peer; /* while opening */

	/* options */
	uint32_t send_buffer, receive_buffer; /* bytes */
	uint32_t send_queue, receive_queue;
	uint32_t inline_data;
	uint32_t iomap_size;
	bool by_send; /* messages are SENDs: iWARP */
	bool reuse_addr, v6_only, no_delay, oob_inline, keepalive;
	int tos;
	struct linger linger;
	void *route; /* RDMA_ROUTE, for rconnect */
	size_t route_length;

	/* listener */
	int backlog;
	int queued;		      /* connections to be accepted */
	int coming;		      /* those on their way there */
	bool paused;		      /* the service does not look for requests */
	struct rs_stream *head, *tail; /* to be accepted; the queue holds a reference */

	/* of a listener's connection */
	struct rs_stream *listener; /* a reference, until in the queue */
	struct rs_stream *next;	    /* in the queue */

	/* queue pair */
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	bool armed;
	unsigned unacknowledged; /* completion events */

	/* buffers, each with its region */
	uint8_t *sbuf, *rbuf;
	struct rs_sge *table;	 /* RS_TABLE_SIZE entries, written by the peer */
	struct rs_iomap *iomaps; /* iomap_size entries behind them, likewise */
	struct ibv_mr *sbuf_mr, *rbuf_mr, *table_mr;

	/* receiving */
	uint32_t rx_half;    /* bytes of half a receive buffer */
	uint32_t rx_head;    /* where the next byte for the application lies in rbuf */
	uint32_t rx_ready;   /* bytes for the application */
	uint32_t rx_window;  /* bytes that the peer may still write */
	uint32_t rx_free;    /* bytes that the application has taken, not given to the peer again */
	uint32_t rx_publish; /* the half that is given next: its offset */
	uint16_t rx_messages; /* received */
	uint16_t rx_granted;  /* the peer may send up to this one */
	unsigned owed_receives; /* to be posted */
	uint32_t receives;	/* posted at a time */
	uint32_t *messages;	/* where those of SENDs arrive, behind rbuf: one a receive, in turn */
	uint32_t next_message;

	/* sending */
	uint32_t tx_head; /* the next free byte of sbuf, a ring */
	uint32_t tx_free; /* bytes */
	uint32_t tx_slots; /* of the send queue, for data */
	uint32_t control_slots;
	unsigned control_next; /* where in the control area the next table entry goes */
	uint16_t tx_messages;  /* sent */
	uint16_t tx_granted;   /* may be sent */
	struct rs_window windows[RS_TABLE_SIZE];
	unsigned tx_window; /* the one being filled */
	unsigned tx_fresh;  /* the entry of table that comes next */
	int pending_control; /* an enum rs_control that waits for a slot, or -1 */
	bool disconnect_sent;

	/* the peer */
	bool swap; /* its byte order is not ours */
	struct rs_sge peer_table;
	uint32_t peer_entry; /* of its table, that we write next */
	uint64_t peer_iomaps; /* address; the key is peer_table's */
	uint32_t peer_iomap_size;

	/* iomap.c */
	struct rs_mapping *mappings;
	bool mappings_untold;
	struct rs_iomap *told; /* iomap_size: what the peer has written to iomaps */

	/* keepalive.c; guarded by its lock */
	unsigned keepalive_idle; /* seconds */
	int64_t keepalive_due;
	struct rs_stream *keepalive_next;
	bool keepalive_listed;
};

static inline struct rs_stream *rs_stream(struct rs_socket *s)
{
	return (struct rs_stream *)s;
}

static inline bool rs_opening(struct rs_stream *st)
{
	return st->state >= RS_RESOLVING_ADDR && st->state <= RS_ACCEPTING;
}

/* stream.c */

/* Returns the number to be, or a negative errno; *s has one reference. */
int rs_stream_new(int domain, struct rs_socket **s);
/* For a connection request; takes id over when it succeeds. NULL: errno. */
struct rs_stream *rs_stream_for_request(struct rs_stream *listener, struct rdma_cm_id *id);
/* With s.mu held: nothing goes on any more. */
void rs_stream_fail(struct rs_stream *st, int error);
/* The error to report now, as a negative errno, or 0. It is reported once. */
int rs_stream_take_error(struct rs_stream *st);

/* endpoint.c; 0 or a positive errno */
int rs_endpoint_open(struct rs_stream *st);
void rs_endpoint_close(struct rs_stream *st);
void rs_conn_data_ours(struct rs_stream *st, struct rs_conn_data *ours);
/* False: the peer is not one that we understand. */
bool rs_conn_data_peers(struct rs_stream *st, const void *data, size_t length);

/* connect.c */
int rs_stream_connect(struct rs_socket *s, const struct sockaddr *addr, socklen_t length);
/* A connection manager event of a stream that does not listen; with s.mu held. */
void rs_connect_event(struct rs_stream *st, const struct rdma_cm_event *event);

/* listen.c */
int rs_stream_listen(struct rs_socket *s, int backlog);
int rs_stream_accept(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
void rs_listen_request(struct rs_stream *listener, struct rdma_cm_id *id, const void *data, size_t length);
/* An accepted connection is established, or will not be; without locks. */
void rs_listen_settled(struct rs_stream *st);
void rs_listen_close(struct rs_stream *listener);

/* progress.c */
void rs_stream_progress(struct rs_socket *s);
short rs_stream_events(struct rs_socket *s, short wanted);
void rs_stream_arm(struct rs_socket *s);
int rs_stream_event_fd(struct rs_socket *s);
void rs_stream_take_event(struct rs_socket *s);
bool rs_can_send(struct rs_stream *st);
/* Posts up to count receives. */
void rs_post_receives(struct rs_stream *st, unsigned count);

/* Slots that a write with its message takes. */
static inline uint32_t rs_slots(const struct rs_stream *st)
{
	return st->by_send ? 2 : 1;
}

/* credits.c; with s.mu held */
void rs_give_credits(struct rs_stream *st);
void rs_take_credits(struct rs_stream *st, uint32_t granted);
/*
 * Posts a write with its message; in slots that the caller has taken. A SEND has
 * the write's wr_id, but for the bytes.
 */
void rs_post_message(struct rs_stream *st, struct ibv_send_wr *write, uint32_t msg);
/* Posts a message without data in a control slot. */
void rs_post_control(struct rs_stream *st, enum rs_control control);

/* send.c */
ssize_t rs_stream_send(struct rs_socket *s, const struct msghdr *msg, int flags);
/* Copies to tx_head, without moving it; with send_mu held. */
void rs_fill(struct rs_stream *st, struct rs_cursor *from, uint32_t length);
/* How much to write at once, the piece-th time in a call. */
uint32_t rs_piece(unsigned piece, size_t left, uint32_t room);
/*
 * Posts a write of length bytes that lie at tx_head, and takes them and a slot;
 * with both locks held. has_msg: with that message.
 */
void rs_post_write(struct rs_stream *st, uint32_t length, uint64_t addr, uint32_t key, bool has_msg, uint32_t msg);
/*
 * Waits until ready, which must also say so when nothing may be sent any more,
 * and mappings are told; with both locks held. 0 or a negative errno.
 */
int rs_wait_to_send(struct rs_stream *st, bool (*ready)(struct rs_socket *s), int flags);

/* receive.c */
ssize_t rs_stream_receive(struct rs_socket *s, struct msghdr *msg, int flags);

/* shutdown.c */
int rs_stream_shutdown(struct rs_socket *s, int how);
void rs_stream_close(struct rs_socket *s);

/* options.c */
int rs_stream_setsockopt(struct rs_socket *s, int level, int name, const void *value, socklen_t length);
int rs_stream_getsockopt(struct rs_socket *s, int level, int name, void *value, socklen_t *length);

/* iomap.c */
off_t rs_iomap_add(struct rs_socket *s, void *buf, size_t length, int prot, off_t *offset);
int rs_iomap_remove(struct rs_socket *s, void *buf, size_t length);
/* Tells the peer of new mappings; with send_mu and s.mu held. */
int rs_iomap_tell(struct rs_stream *st, int flags);
/* The peer wrote an entry; with s.mu held. */
void rs_iomap_told(struct rs_stream *st, uint32_t entry);
void rs_iomap_free(struct rs_stream *st);
/* riowrite.c */
ssize_t rs_iomap_write(struct rs_socket *s, const void *buf, size_t count, off_t offset, int flags);

#endif
