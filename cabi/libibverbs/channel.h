/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels. The descriptor that the application has is an epoll set:
 *
 *	channel.fd ─┬─ event_fd   readable while an event waits
 *	            └─ arrivals   the engine's bell and sockets, for one non-blocking channel
 *	                          per thread
 *
 * So a packet wakes a thread that waits in poll(2) or epoll_wait(2) for a non-blocking channel:
 * ibv_get_cq_event reads it, and returns the event or EAGAIN. The descriptor of a blocking
 * channel must not be readable without an event, because ibv_get_cq_event would not return. A
 * thread that blocks in ibv_get_cq_event waits for both by itself (wait_fd).
 */
#ifndef VERBENA_CHANNEL_H
#define VERBENA_CHANNEL_H

#include "front.h"
#include "giveway.h"

#include <sys/types.h>

struct vb_channel {
	struct ibv_comp_channel channel; /* the mutex of the context guards its refcnt */
	/* atomic: its engine; NULL before the first queue */
	_Atomic(const struct vb_engine *) engine;
	/* immutable once there is an engine */
	pid_t owner;
	int event_fd;
	const atomic_int *flag; /* of O_NONBLOCK (nonblock.h), or NULL */
	vb_handle handle;
	int bell, sockets; /* of the engine */
	/* atomic */
	atomic_int wait_fd; /* -1 before the first wait */
	atomic_bool shows;  /* fd shows arrivals */
	atomic_bool waits;  /* the last ibv_get_cq_event blocked */
	atomic_bool asked;  /* ibv_get_cq_event has chosen shows since ibv_req_notify_cq */
	atomic_bool ready;  /* since ibv_req_notify_cq the engine knows of the sleep */
	atomic_uint kept;   /* events in a row that came before the call */
	atomic_uint hasty;  /* events in a row that came after it */
	struct vb_giveway giveway; /* of yields after packets without an event */
};

static inline struct vb_channel *vb_channel_of(struct ibv_comp_channel *channel)
{
	return (struct vb_channel *)channel;
}

/*
 * Called when a completion queue begins and ends to use the channel: 0, or EIO for a channel from
 * before a fork.
 */
int vb_channel_use(struct vb_channel *channel, const struct vb_engine *engine, vb_handle ctx);
void vb_channel_unuse(struct vb_channel *channel);

struct vb_cq;

/* Called before a notification of a queue is asked for. Returns the application's next step. */
enum vb_arm vb_channel_notify(struct vb_channel *channel, struct vb_cq *cq);

/*
 * Called when the application has asked a queue for a notification and finds nothing: it is about
 * to sleep. Returns whether completions have come. The caller polls up to most of them.
 */
int vb_channel_sleep(struct vb_channel *channel, struct vb_cq *cq, int most);

/* Returns an address that no other thread of the process has. */
const void *vb_thread(void);

/* Called when the calling thread polls again and again, and finds nothing. */
void vb_channel_polled(void);

/*
 * Called when the calling thread goes to sleep after such polls. Returns whether another thread
 * polls.
 */
int vb_channel_another_polls(void);

#endif
