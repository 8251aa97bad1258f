/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream: a TCP-like socket over one RC queue pair.
 *
 *	sender                                    receiver
 *	  sbuf ──RDMA WRITE with immediate──►       rbuf     two halves, a ring
 *	  table[2] ◄──RDMA WRITE with immediate──   which half may be written next
 *
 * Each side owns a receive buffer of two halves and tells the other where the next free half is by
 * writing into its table (credits.c). Data fills one half to its last byte before it goes on in the
 * next, so the received bytes form a ring. The immediate data says how many bytes came. A second
 * limit, credits, keeps the sender from having more messages under way than there are receives
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

/*
 * The kind of a work request: the last 8 bits of its wr_id. The other bits count its bytes of sbuf.
 */
enum rs_work {
	RS_WORK_RECEIVE,
	RS_WORK_DATA, /* data, riowrite(3) or an iomap entry: one slot, bytes of sbuf */
	RS_WORK_CONTROL,    /* a control slot */
	RS_WORK_DISCONNECT, /* likewise; the last message */
};

struct rs_mapping; /* iomap.c */

struct rs_window { /* a range in the receive buffer of the peer */
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct rs_stream {
	struct rs_socket s;

	/* Serialise senders and receivers. Lock order: these, then s.mu. */
	pthread_mutex_t send_mu;
	pthread_mutex_t receive_mu;

	/* immutable until the last reference goes */
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel;

	/* guarded by s.mu */
	enum rs_state state;
	bool may_receive; /* the peer has not shut its half, nor we ours */
	bool may_send;
	bool established;  /* it was once CONNECTED */
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
	void *route; /* RDMA_ROUTE: the path for rconnect */
	size_t route_length;

	/* listener */
	int backlog;
	int queued;		      /* connections in the queue */
	int coming;		      /* connections in setup */
	bool paused;		      /* the service does not watch for requests */
	struct rs_stream *head, *tail; /* queue of connections for raccept; a reference each */

	/* of a listener's connection */
	struct rs_stream *listener; /* a reference until it is in the queue */
	struct rs_stream *next;	    /* in the queue */

	/* queue pair */
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;

	/* buffers, each with its region */
	uint8_t *sbuf, *rbuf;
	struct rs_sge *table;	 /* RS_TABLE_SIZE entries, written by the peer */
	struct rs_iomap *iomaps; /* iomap_size entries behind them, likewise */
	struct ibv_mr *sbuf_mr, *rbuf_mr, *table_mr;

	/* receiving */
	uint32_t rx_half;    /* bytes of half a receive buffer */
	uint32_t rx_head;    /* offset in rbuf of the next byte for the application */
	uint32_t rx_ready;   /* bytes for the application */
	uint32_t rx_window;  /* bytes that the peer may still write */
	uint32_t rx_free;    /* bytes read and not granted to the peer again */
	uint32_t rx_publish; /* offset of the half that is granted next */
	uint16_t rx_messages; /* sequence number of the last message received */
	uint16_t rx_granted;  /* last sequence number granted to the peer */
	unsigned owed_receives; /* receives to post */
	uint32_t receives;	/* receives posted at a time */
	uint32_t *messages;	/* room for SENDs, behind rbuf: one per receive */
	uint32_t next_message;

	/* sending */
	uint32_t tx_head; /* the next free byte of sbuf, a ring */
	uint32_t tx_free; /* bytes */
	uint32_t tx_slots; /* of the send queue, for data */
	uint32_t control_slots;
	unsigned control_next; /* place of the next table entry in the control area */
	uint16_t tx_messages;  /* sequence number of the last message sent */
	uint16_t tx_granted;   /* last sequence number granted by the peer */
	struct rs_window windows[RS_TABLE_SIZE];
	unsigned tx_window; /* the one being filled */
	unsigned tx_fresh;  /* next entry of table */
	int pending_control; /* enum rs_control that waits for a slot, or -1 */
	bool disconnect_sent;

	/* the peer */
	bool swap; /* its byte order differs from ours */
	struct rs_sge peer_table;
	uint32_t peer_entry; /* next entry of its table */
	uint64_t peer_iomaps; /* address of its iomap table, under the key of peer_table */
	uint32_t peer_iomap_size;

	/* iomap.c */
	struct rs_mapping *mappings;
	bool mappings_untold;
	struct rs_iomap *told; /* iomap_size entries, copied from iomaps */

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
/* Makes the stream of a connection request. On success it owns id. NULL: errno. */
struct rs_stream *rs_stream_for_request(struct rs_stream *listener, struct rdma_cm_id *id);
/* Ends all transfers with an error. The caller holds s.mu. */
void rs_stream_fail(struct rs_stream *st, int error);
/* Returns the error to report now as a negative errno, or 0. Each error is reported once. */
int rs_stream_take_error(struct rs_stream *st);

/* endpoint.c; 0 or a positive errno */
int rs_endpoint_open(struct rs_stream *st);
void rs_endpoint_close(struct rs_stream *st);
void rs_conn_data_ours(struct rs_stream *st, struct rs_conn_data *ours);
/* Returns false if the private data is not that of an rsocket. */
bool rs_conn_data_peers(struct rs_stream *st, const void *data, size_t length);

/* connect.c */
int rs_stream_connect(struct rs_socket *s, const struct sockaddr *addr, socklen_t length);
/* Handles a connection manager event of a stream that does not listen. The caller holds s.mu. */
void rs_connect_event(struct rs_stream *st, const struct rdma_cm_event *event);

/* listen.c */
int rs_stream_listen(struct rs_socket *s, int backlog);
int rs_stream_accept(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
void rs_listen_request(struct rs_stream *listener, struct rdma_cm_id *id, const void *data,
		       size_t length);
/* Notes that an accepted connection is established, or has failed. The caller holds no lock. */
void rs_listen_settled(struct rs_stream *st);
void rs_listen_close(struct rs_stream *listener);

/* progress.c */
void rs_stream_progress(struct rs_socket *s);
short rs_stream_events(struct rs_socket *s, short wanted);
int rs_stream_sleep_on(struct rs_socket *s, struct vb_sleep *sleep);
bool rs_can_send(struct rs_stream *st);
/* Posts up to count receives. */
void rs_post_receives(struct rs_stream *st, unsigned count);

/* Returns the send slots that a write and its message take. */
static inline uint32_t rs_slots(const struct rs_stream *st)
{
	return st->by_send ? 2 : 1;
}

/* credits.c; with s.mu held */
void rs_give_credits(struct rs_stream *st);
void rs_take_credits(struct rs_stream *st, uint32_t granted);
/*
 * Posts a write and its message in slots that the caller has taken. A SEND gets the wr_id of the
 * write, without its bytes.
 */
void rs_post_message(struct rs_stream *st, struct ibv_send_wr *write, uint32_t msg);
/* Posts a message without data in a control slot. */
void rs_post_control(struct rs_stream *st, enum rs_control control);

/* send.c */
ssize_t rs_stream_send(struct rs_socket *s, const struct msghdr *msg, int flags);
/* Copies to tx_head, which stays. The caller holds send_mu. */
void rs_fill(struct rs_stream *st, struct rs_cursor *from, uint32_t length);
/* Returns the length of the n-th write of a call. */
uint32_t rs_piece(unsigned piece, size_t left, uint32_t room);
/*
 * Posts a write of the length bytes at tx_head, and takes them and a slot. With has_msg the message
 * goes along. The caller holds both locks.
 */
void rs_post_write(struct rs_stream *st, uint32_t length, uint64_t addr, uint32_t key, bool has_msg,
		   uint32_t msg);
/*
 * Waits until ready returns true, and announces mappings first. ready must be true also when
 * nothing may be sent any more. The caller holds both locks. 0 or a negative errno.
 */
int rs_wait_to_send(struct rs_stream *st, bool (*ready)(struct rs_socket *s), int flags);

/* receive.c */
ssize_t rs_stream_receive(struct rs_socket *s, struct msghdr *msg, int flags);

/* shutdown.c */
int rs_stream_shutdown(struct rs_socket *s, int how);
void rs_stream_close(struct rs_socket *s);

/* options.c */
int rs_stream_setsockopt(struct rs_socket *s, int level, int name, const void *value,
			 socklen_t length);
int rs_stream_getsockopt(struct rs_socket *s, int level, int name, void *value, socklen_t *length);

/* iomap.c */
off_t rs_iomap_add(struct rs_socket *s, void *buf, size_t length, int prot, off_t *offset);
int rs_iomap_remove(struct rs_socket *s, void *buf, size_t length);
/* Announces new mappings to the peer. The caller holds send_mu and s.mu. */
int rs_iomap_tell(struct rs_stream *st, int flags);
/* Takes an entry that the peer wrote. The caller holds s.mu. */
void rs_iomap_told(struct rs_stream *st, uint32_t entry);
void rs_iomap_free(struct rs_stream *st);
/* riowrite.c */
ssize_t rs_iomap_write(struct rs_socket *s, const void *buf, size_t count, off_t offset, int flags);

#endif
