/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. The ring is ours, the engine pushes into it: see engine.h.
 */
#ifndef VERBENA_CQ_H
#define VERBENA_CQ_H

#include "channel.h"
#include "cookie.h"
#include "giveway.h"
#include "lock.h"
#include "order.h"
#include "pd.h"
#include "srq.h"

struct vb_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	} ibv;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle ctx;
	vb_handle handle;
	struct vb_board *board; /* where to look before progress is called, or NULL */
	struct vb_pd *parent; /* a parent domain that it was created in, or NULL */
	int timed; /* times follow the ring's slots */
	struct vb_source source;
	/* atomic: the thread that asked for a notification and has polled nothing since, or NULL */
	_Atomic(const void *) armed;
	atomic_uint drained; /* events in a row before which such a thread found the queue empty */
	atomic_uint empty; /* polls in a row that found nothing; several threads may lose some */
	/* guarded by lock */
	struct vb_lock lock;
	struct vb_memory slots; /* the ring's */
	struct vb_wc at; /* where start_poll and next_poll are */
	struct vb_wc_time at_time; /* zero unless timed */
	/* the engine writes it at its tail, the holder of lock at its head */
	struct vb_cq_ring ring;
};

static inline struct vb_cq *vb_cq_of(struct ibv_cq *cq)
{
	return (struct vb_cq *)cq;
}

/*
 * Takes the poll locks of two queues, which may be one or NULL, in the order of
 * their addresses: the engine is about to remove completions of a queue pair.
 */
void vb_cq_lock(struct vb_cq *a, struct vb_cq *b);
void vb_cq_unlock(struct vb_cq *a, struct vb_cq *b);

/*
 * The search of an empty poll: reads the network if there is something, and now
 * and then. The lock is not held. Returns whether another look is worth it, for up
 * to most completions.
 */
int vb_cq_idle(struct vb_cq *cq, int most);

/* The time, in nanoseconds. */
uint64_t vb_now(void);

/* Gives the core to others, and notes how long they had it. Returns that. */
uint64_t vb_yield(struct vb_giveway *g, unsigned senders);

/* Whether there is nothing to take. */
static inline int vb_cq_is_empty(struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->ring.head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->ring.tail, memory_order_acquire);
}

/* Posted work comes before its completion. */
static inline void vb_cq_found(struct vb_cq *cq)
{
	vb_order_after(&cq->ibv.cq);
	vb_order_after(&vb_srq_posts);
}

int vb_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int vb_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int vb_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* The times that ibv_create_cq_ex may ask for. */
#define VB_WC_TIMES                                                                                \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

/* The common end of both ways of creating; attr is checked. */
struct vb_cq *vb_cq_make(struct ibv_context *ctx, const struct ibv_cq_init_attr_ex *attr);
struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

#endif
