/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The declarations that the files of our librdmacm.so.1 share.
 *
 * The queue pair of an identifier is an ordinary one of libibverbs. This library modifies it as
 * cm_init_qp_attr says, as that of rdma-core does; the engine sees connections whose queue pair it
 * does not drive.
 *
 * Lock order: channel.mu, then cm_ids (id.c). Neither is held while a call of the application
 * waits. Functions of the engine may be called with both held.
 */
#ifndef VERBENA_CM_H
#define VERBENA_CM_H

#include "../libibverbs/front.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Sets errno and returns -1, as the functions of rdma_cma.h do. */
static inline int cm_fail(int err)
{
	errno = err;
	return -1;
}

/* Turns a returned errno into a set one. */
static inline int cm_result(int err)
{
	return err ? cm_fail(err) : 0;
}

/* Events that rdma-core has added after 44. */
enum {
	CM_EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1,
	CM_EVENT_ADDRINFO_ERROR,
	CM_EVENT_USER,
	CM_EVENT_INTERNAL,
};

/* -- event channels (channel.c) ---------------------------------------------- */

/*
 * The engine writes pointers to events into a pipe whose other end is the descriptor of the
 * application. A thread takes an event with mu held. When an identifier is destroyed or migrated,
 * all events are read from the pipe to take out its own. The others wait in moved: they are older
 * than those in the pipe. A null pointer in the pipe stands in for them, so that the descriptor is
 * readable.
 */
struct cm_channel {
	struct rdma_event_channel channel; /* first: applications see only this */
	pthread_mutex_t mu;
	/* guarded by mu */
	int write_fd;
	const struct vb_engine *engine; /* NULL before the first identifier */
	vb_handle handle;
	struct cm_moved *moved, **moved_end;
	int waiting;   /* threads in rdma_get_cm_event */
	int destroyed; /* the last one to leave frees the channel */
	unsigned owner; /* forks before the process of the pipe */
	uint64_t number; /* immutable; unique in the process */
	/* atomic: was O_NONBLOCK, and has had no event since; a hint */
	atomic_bool polled;
};

static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *channel)
{
	return (struct cm_channel *)channel;
}

/* Makes sure that the engine knows the channel: 0 or an errno. */
int cm_channel_open(struct cm_channel *channel);
/* To be called in a child of a fork, which has none of the threads. */
void cm_channels_after_fork_in_child(void);
/* Gives the channel, which is open, an event that the engine does not make: 0 or an errno. */
int cm_channel_post(struct cm_channel *channel, struct vb_cm_event *event);
/* Takes the oldest event, and waits for it if the descriptor is a blocking one: 0 or an errno. */
int cm_channel_take(struct cm_channel *channel, struct vb_cm_event **event);

enum cm_verdict { CM_STAYS, CM_MOVES, CM_DROPPED };

/*
 * Removes the waiting events of a channel for which judge returns true: they are dropped, or
 * appended to the moved events of another channel. The caller holds mu of both.
 */
void cm_channel_sift(struct cm_channel *channel, struct cm_channel *to,
		     enum cm_verdict (*judge)(const struct vb_cm_event *, const void *), const void *arg);

/* Frees an event that the application will not see, and the request in it. */
void cm_event_discard(const struct vb_engine *engine, struct vb_cm_event *event);

/* -- identifiers (id.c) -------------------------------------------------------- */

struct cm_id {
	struct rdma_cm_id id; /* first: applications see only this */
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
	vb_cookie cookie;
	/* guarded by ids */
	struct cm_id *next;
	unsigned events_reported, events_acked;
	struct cm_group *groups;
	int resolving;			/* rdma_resolve_addrinfo was called */
	struct rdma_addrinfo *resolved; /* its result, for rdma_query_addrinfo */
	/* changed by calls of the application, one at a time */
	struct cm_device *device;
	int any_device; /* bound to a loopback address and to no device */
	int sync; /* the channel is the identifier's own */
	int connect_error;
	uint8_t initiator_depth, responder_resources; /* as the peer asked, then as chosen */
	struct ibv_ece local_ece, remote_ece;
	struct ibv_qp_init_attr *qp_init_attr; /* of requests to a passive endpoint */
	void *connect; /* of rdma_addrinfo: precedes private data */
	size_t connect_len;
};

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
	return (struct cm_id *)id;
}

/*
 * Guards the table of identifiers, and fields that name it. acked wakes threads that wait for
 * acknowledgements.
 */
extern pthread_mutex_t cm_ids;
extern pthread_cond_t cm_acked;

/* Unique for ever. */
vb_cookie cm_cookie(void);
/* Finds an identifier. The caller holds cm_ids. */
struct cm_id *cm_id_find(vb_cookie cookie);
/* rdma_create_id with a type of queue pair. */
int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		 enum rdma_port_space ps, enum ibv_qp_type qp_type);
/* Makes the identifier of a request, for which the engine has a handle: 0 or an errno. */
int cm_id_adopt(struct cm_id *listener, vb_handle handle, struct cm_id **id);

/*
 * In synchronous mode, waits for the event that a call causes and leaves it in id->event: 0, or -1
 * and errno if the event is a failure.
 */
int cm_complete(struct rdma_cm_id *id);
/* Gives the identifier's channel an event that the engine does not make: 0 or an errno. */
int cm_event_write(struct cm_id *id, uint32_t type, int status, uint64_t arg);

/* Acknowledges the event that a synchronous call left in id->event. */
void cm_ack_last(struct rdma_cm_id *id);

/* -- devices (device.c) ---------------------------------------------------------- */

/*
 * A device, which all identifiers share. It stays open while the library is loaded:
 * rdma_get_devices(3).
 */
struct cm_device {
	/* immutable */
	struct cm_device *next;
	struct ibv_context *verbs;
	uint8_t max_responder_resources, max_initiator_depth;
	uint8_t rate; /* of its port, as path records have it */
	/* guarded by the list's lock */
	const struct vb_engine *engine; /* the engine of pd and xrcd */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
};

/* Finds and opens a device by name: 0 or an errno. */
int cm_device_open(const char *name, struct cm_device **device);
/* Returns the domains for applications that name none: 0 or an errno. */
int cm_device_pd(struct cm_device *device, struct ibv_pd **pd);
int cm_device_xrcd(struct cm_device *device, struct ibv_xrcd **xrcd);

/* -- addresses (address.c) ------------------------------------------------------- */

/* Returns the length of an address by its family; 0 for none and for families not served. */
socklen_t cm_addrlen(const struct sockaddr *addr);
/* Fills in id->route and id->verbs with the answer of the engine: 0 or an errno. */
int cm_query_route(struct cm_id *id);

/* -- queue pairs (qp.c) ------------------------------------------------------------ */

int cm_is_ud(enum ibv_qp_type type);
/*
 * Take the queue pair of the identifier, if it has one, to a state: 0 or an errno.
 * RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH stand for the numbers of the connection.
 */
int cm_qp_rtr(struct rdma_cm_id *id, uint8_t responder_resources);
int cm_qp_rts(struct rdma_cm_id *id, uint8_t initiator_depth);
int cm_qp_err(struct rdma_cm_id *id);
/* Makes the completion queues of an identifier; 0 asks for none. */
int cm_create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size);
void cm_destroy_cqs(struct rdma_cm_id *id);

/* -- multicast (multicast.c) ---------------------------------------------------------- */

/* A join of a multicast group. */
struct cm_group {
	/* immutable */
	vb_cookie cookie;
	void *context;
	uint64_t join_flags;
	struct sockaddr_storage addr;
	/* guarded by cm_ids */
	struct cm_group *next;
	int attached; /* the queue pair is attached to mgid */
	union ibv_gid mgid;
	unsigned events_reported, events_acked;
};

/* Attaches the queue pair to the group that an event brought: 0 or an errno. */
int cm_group_joined(struct cm_id *id, struct cm_group *group, const union ibv_gid *mgid);

#endif
