/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: ibv_create_cq(3), ibv_resize_cq(3), ibv_req_notify_cq(3).
 */
#include "cq.h"
#include "pd.h"
#include "pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Returns the least power of two that holds cqe completions, or 0 if that is out of range.
 * Applications use the resulting size (libfabric rxm rounds max_cqe up).
 */
static int depth_for(struct ibv_context *ctx, uint32_t cqe)
{
	struct ibv_device_attr_ex attr;
	uint32_t depth = 1;

	vb_device_attr(vb_context_of(ctx)->device, &attr);
	if (cqe < 1 || attr.orig_attr.max_cqe < 0 || cqe > (uint32_t)attr.orig_attr.max_cqe)
		return 0;
	while (depth < cqe)
		depth *= 2;
	return (int)depth;
}

/* The memory that a completion takes. */
static size_t slot_bytes(int timed)
{
	return sizeof(struct vb_wc) + (timed ? sizeof(struct vb_wc_time) : 0);
}

/* The alignment keeps the counts of the engine and of the front in different cache lines. */
static struct vb_cq *alloc_cq(int depth, int timed, struct vb_pd *parent)
{
	struct vb_cq *cq = aligned_alloc(_Alignof(struct vb_cq), sizeof(*cq));

	if (!cq)
		return NULL;
	memset(cq, 0, sizeof(*cq));
	cq->timed = timed;
	cq->slots = vb_memory_new(parent, (size_t)depth, slot_bytes(timed));
	if (!cq->slots.at) {
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	cq->ring.slots = cq->slots.at;
	cq->ring.mask = (uint64_t)depth - 1;
	pthread_mutex_init(&cq->ibv.cq.mutex, NULL);
	pthread_cond_init(&cq->ibv.cq.cond, NULL);
	vb_lock_init(&cq->lock);
	return cq;
}

static void free_cq(struct vb_cq *cq)
{
	pthread_cond_destroy(&cq->ibv.cq.cond);
	pthread_mutex_destroy(&cq->ibv.cq.mutex);
	vb_memory_free(cq->slots);
	free(cq);
}

struct vb_cq *vb_cq_make(struct ibv_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	struct vb_channel *channel = attr->channel ? vb_channel_of(attr->channel) : NULL;
	const struct vb_engine *engine;
	struct vb_pd *parent = NULL;
	struct vb_cq *cq;
	vb_handle handle;
	int err, depth;

	depth = ctx ? depth_for(ctx, attr->cqe) : 0;
	if (!depth || attr->comp_vector >= (uint32_t)ctx->num_comp_vectors ||
	    (channel && channel->channel.context != ctx)) {
		errno = EINVAL;
		return NULL;
	}
	err = vb_enter(ctx, &engine, &handle);
	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		parent = vb_pd_of(attr->parent_domain);
	cq = alloc_cq(depth, (attr->wc_flags & VB_WC_TIMES) != 0, parent);
	if (!cq)
		return NULL;
	cq->parent = parent;
	cq->engine = engine;
	cq->ctx = handle;
	cq->ibv.cq.context = ctx;
	cq->ibv.cq.channel = attr->channel;
	cq->ibv.cq.cq_context = attr->cq_context;
	cq->ibv.cq.cqe = depth;
	err = engine->board(handle, &cq->board);
	if (!err && channel)
		err = vb_channel_use(channel, engine, handle);
	if (err)
		goto no_channel;
	err = vb_cookie_new(&cq->source, cq);
	if (err)
		goto no_cookie;
	err = engine->cq_create(handle, depth, &cq->ring, cq->timed, channel ? channel->handle : 0,
				cq->source.cookie, &cq->handle);
	if (err)
		goto no_queue;
	cq->ibv.cq.handle = (uint32_t)cq->handle;
	if (parent)
		atomic_fetch_add(&parent->parents, 1);
	return cq;
no_queue:
	vb_cookie_drop(&cq->source);
no_cookie:
	if (channel)
		vb_channel_unuse(channel);
no_channel:
	free_cq(cq);
	errno = err;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_cq *, ibv_create_cq,
			     (struct ibv_context *ctx, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector),
			     (ctx, cqe, cq_context, channel, comp_vector))
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector, /* a negative one is out of range too */
	};
	struct vb_cq *cq = vb_cq_make(ctx, &attr);

	return cq ? &cq->ibv.cq : NULL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_resize_cq, (struct ibv_cq *ibcq, int cqe), (ibcq, cqe))
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct vb_memory slots, old;
	int depth, err;

	if (!ibcq)
		return EINVAL;
	depth = depth_for(ibcq->context, cqe < 0 ? 0 : (uint32_t)cqe);
	if (!depth)
		return EINVAL;
	if (!vb_engine_alive(cq->engine))
		return EIO;
	slots = vb_memory_new(cq->parent, (size_t)depth, slot_bytes(cq->timed));
	if (!slots.at)
		return ENOMEM;
	vb_cq_lock(cq, NULL);
	old = cq->slots;
	err = cq->engine->cq_resize(cq->handle, depth, slots.at, (uint64_t)depth - 1);
	if (!err) {
		cq->slots = slots;
		ibcq->cqe = depth;
	}
	vb_cq_unlock(cq, NULL);
	vb_memory_free(err ? slots : old);
	return err;
}

/* ibv_modify_cq(3) */
VB_RETURNS_ERRNO(vb_modify_cq, (struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr), (ibcq, attr))
{
	struct vb_cq *cq = vb_cq_of(ibcq);

	if (!ibcq || !attr || attr->attr_mask >= IBV_CQ_ATTR_RESERVED)
		return EINVAL;
	if (!vb_engine_alive(cq->engine))
		return EIO;
	if (!(attr->attr_mask & IBV_CQ_ATTR_MODERATE))
		return 0;
	return cq->engine->cq_moderate(cq->handle, attr->moderate.cq_count,
				       attr->moderate.cq_period);
}

VB_RETURNS_ERRNO(vb_req_notify_cq, (struct ibv_cq *ibcq, int solicited_only),
		 (ibcq, solicited_only))
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	enum vb_arm how;

	if (!ibcq->channel) /* the event goes nowhere, as on an RNIC */
		return 0;
	how = vb_channel_notify(vb_channel_of(ibcq->channel), cq);
	atomic_store_explicit(&cq->armed, vb_thread(), memory_order_relaxed);
	return cq->engine->cq_arm(cq->handle, solicited_only, how);
}

/* Destroying a queue waits for the acknowledgement of its events. */
static void wait_for_acks(struct vb_cq *cq)
{
	struct ibv_cq *c = &cq->ibv.cq;

	pthread_mutex_lock(&c->mutex);
	while (c->comp_events_completed != cq->source.comp_reported ||
	       c->async_events_completed != cq->source.async_reported)
		pthread_cond_wait(&c->cond, &c->mutex);
	pthread_mutex_unlock(&c->mutex);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_cq, (struct ibv_cq *ibcq), (ibcq))
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct vb_context *ctx;
	struct vb_pd *parent;
	int err;

	if (!ibcq)
		return EINVAL;
	err = cq->engine->cq_destroy(cq->handle);
	if (err)
		return err;
	vb_cookie_drop(&cq->source);
	ctx = vb_context_of(ibcq->context);
	vb_pipe_purge(ctx->verbs.context.async_fd, ctx->async_write_fd, sizeof(struct vb_async_event),
		      offsetof(struct vb_async_event, object), cq->source.cookie);
	wait_for_acks(cq);
	if (ibcq->channel)
		vb_channel_unuse(vb_channel_of(ibcq->channel));
	parent = cq->parent;
	free_cq(cq);
	if (parent)
		atomic_fetch_sub(&parent->parents, 1);
	return 0;
}
