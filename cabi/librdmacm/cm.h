/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of our librdmacm.so.1 know of each other.
 *
 * An identifier's queue pair is an ordinary one of libibverbs: this library
 * takes it through its states with what cm_init_qp_attr says, as rdma-core's
 * does, and the engine sees connections whose queue pair is someone else's.
 *
 * Locks: channel.mu, then ids (id.c). Neither is held while an application's
 * call waits. The engine's functions may be called with both held.
 */
#ifndef VERBENA_CM_H
#define VERBENA_CM_H

#include "../libibverbs/front.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Says what went wrong, as the functions of rdma_cma.h do. */
static inline int cm_fail(int err)
{
	errno = err;
	return -1;
}

/* Turns an errno that was returned into one that is set. */
static inline int cm_result(int err)
{
	return err ? cm_fail(err) : 0;
}

/* -- event channels (channel.c) ---------------------------------------------- */

/*
 * The engine writes pointers to events into a pipe whose other end is the
 * application's descriptor. Whoever takes an event does so under mu. Events that
 * had to be taken out before their turn, when an identifier was destroyed or
 * migrated, wait in moved; they are older than what the pipe holds. A null
 * pointer in the pipe stands for them, so that the descriptor is readable.
 */
struct cm_channel {
	struct rdma_event_channel channel; /* first: what applications see */
	pthread_mutex_t mu;
	/* guarded by mu */
	int write_fd;
	const struct vb_engine *engine; /* NULL before the first identifier */
	vb_handle handle;
	struct cm_moved *moved, **moved_end;
	int waiting;   /* calls of rdma_get_cm_event */
	int destroyed; /* the last of them frees the channel */
	pid_t owner;   /* whose pipe it is */
};

static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *channel)
{
	return (struct cm_channel *)channel;
}

/* Makes sure that the engine knows the channel: 0 or an errno. */
int cm_channel_open(struct cm_channel *channel);
/*
 * Takes the oldest event, waiting for it if the descriptor is a blocking one:
 * 0 or an errno.
 */
int cm_channel_take(struct cm_channel *channel, struct vb_cm_event **event);

enum cm_verdict { CM_STAYS, CM_MOVES, CM_DROPPED };

/*
 * Looks through the events that wait on a channel and sorts out those for which
 * judge says so: onto the end of what was moved to another channel, or away. The
 * caller holds mu of both.
 */
void cm_channel_sift(struct cm_channel *channel, struct cm_channel *to,
		     enum cm_verdict (*judge)(const struct vb_cm_event *, const void *), const void *arg);

/* Frees an event that nobody sees, with the request that it may carry. */
void cm_event_discard(const struct vb_engine *engine, struct vb_cm_event *event);

/* -- identifiers (id.c) -------------------------------------------------------- */

struct cm_id {
	struct rdma_cm_id id; /* first: what applications see */
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
	vb_cookie cookie;
	/* guarded by ids */
	struct cm_id *next;
	unsigned events_reported, events_acked;
	struct cm_group *groups;
	/* by the application's calls, which it does not make concurrently */
	struct cm_device *device;
	int any_device; /* bound to a loopback address, and to no device by that */
	int sync; /* the channel is the identifier's own */
	int connect_error;
	uint8_t initiator_depth, responder_resources; /* the peer's wish, then what was chosen */
	struct ibv_qp_init_attr *qp_init_attr; /* of requests to a passive endpoint */
	void *connect; /* of rdma_addrinfo: goes in front of private data */
	size_t connect_len;
};

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
	return (struct cm_id *)id;
}

/* Guards the table of identifiers and what else says so; acked wakes who waits for acknowledgements. */
extern pthread_mutex_t cm_ids;
extern pthread_cond_t cm_acked;

/* A number that is not given out twice. */
vb_cookie cm_cookie(void);
/* Finds an identifier. The caller holds cm_ids. */
struct cm_id *cm_id_find(vb_cookie cookie);
/* rdma_create_id with a type of queue pairs. */
int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps,
		 enum ibv_qp_type qp_type);
/* Makes the identifier of a request that the engine has a handle for: 0 or an errno. */
int cm_id_adopt(struct cm_id *listener, vb_handle handle, struct cm_id **id);

/*
 * In synchronous mode, waits for the event that a call brings about and leaves
 * it in id->event: 0, or -1 and errno if it tells of a failure.
 */
int cm_complete(struct rdma_cm_id *id);
/* Acknowledges what a synchronous call left in id->event. */
void cm_ack_last(struct rdma_cm_id *id);

/* -- devices (device.c) ---------------------------------------------------------- */

/*
 * A device as all identifiers share it. It stays open while the library is
 * loaded: rdma_get_devices(3).
 */
struct cm_device {
	/* immutable */
	struct cm_device *next;
	struct ibv_context *verbs;
	uint8_t max_responder_resources, max_initiator_depth;
	/* guarded by the list's lock */
	const struct vb_engine *engine; /* that pd and xrcd belong to */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
};

/* Finds and opens a device by name: 0 or an errno. */
int cm_device_open(const char *name, struct cm_device **device);
/* The domains that are used where an application names none: 0 or an errno. */
int cm_device_pd(struct cm_device *device, struct ibv_pd **pd);
int cm_device_xrcd(struct cm_device *device, struct ibv_xrcd **xrcd);

/* -- addresses (address.c) ------------------------------------------------------- */

/* The length of an address by its family; 0 for none and for a family that is not served. */
socklen_t cm_addrlen(const struct sockaddr *addr);
/* Asks the engine where the identifier stands and fills in id->route and id->verbs: 0 or an errno. */
int cm_query_route(struct cm_id *id);

/* -- queue pairs (qp.c) ------------------------------------------------------------ */

int cm_is_ud(enum ibv_qp_type type);
/*
 * Take the identifier's queue pair, if it has one, to a state: 0 or an errno.
 * RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH leave the number to the connection.
 */
int cm_qp_rtr(struct rdma_cm_id *id, uint8_t responder_resources);
int cm_qp_rts(struct rdma_cm_id *id, uint8_t initiator_depth);
int cm_qp_err(struct rdma_cm_id *id);
/* Completion queues of the identifier's own; 0 asks for none. */
int cm_create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size);
void cm_destroy_cqs(struct rdma_cm_id *id);

/* -- multicast (multicast.c) ---------------------------------------------------------- */

/* A join. */
struct cm_group {
	/* immutable */
	vb_cookie cookie;
	void *context;
	uint64_t join_flags;
	struct sockaddr_storage addr;
	/* guarded by cm_ids */
	struct cm_group *next;
	int attached; /* the queue pair listens to mgid */
	union ibv_gid mgid;
	unsigned events_reported, events_acked;
};

/* Attaches the queue pair to the group that an event brought: 0 or an errno. */
int cm_group_joined(struct cm_id *id, struct cm_group *group, const union ibv_gid *mgid);

#endif
