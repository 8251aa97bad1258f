/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3).
 */
#include "srq.h"
#include "cq.h"
#include "pd.h"
#include "pipe.h"
#include "xrcd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char vb_srq_posts;

static struct ibv_srq *make(struct ibv_pd *pd, struct ibv_srq_init_attr_ex *attr,
			    enum ibv_srq_type type)
{
	struct vb_srq_init init = {.attr = attr->attr, .pd = vb_pd_handle(pd)};
	const struct vb_engine *engine = vb_pd_of(pd)->engine;
	struct vb_srq *srq;
	int err;

	/* Objects from before and after a fork do not go together. */
	if ((type == IBV_SRQT_XRC && vb_xrcd_of(attr->xrcd)->engine != engine) ||
	    (type != IBV_SRQT_BASIC && vb_cq_of(attr->cq)->engine != engine)) {
		errno = EIO;
		return NULL;
	}
	if (type != IBV_SRQT_BASIC)
		init.cq = vb_cq_of(attr->cq)->handle;
	if (type == IBV_SRQT_XRC)
		init.xrcd = vb_xrcd_of(attr->xrcd)->handle;
	if (type == IBV_SRQT_TM) {
		init.max_num_tags = attr->tm_cap.max_num_tags;
		init.max_ops = attr->tm_cap.max_ops;
	}
	srq = aligned_alloc(_Alignof(struct vb_srq), sizeof(*srq)); /* the ring needs the alignment */
	if (!srq)
		return NULL;
	memset(srq, 0, sizeof(*srq));
	err = vb_recvs_new(&srq->recvs, vb_context_of(pd->context)->device, attr->attr.max_wr,
			   attr->attr.max_sge);
	if (err)
		goto no_cookie;
	init.recv = vb_recvs_memory(&srq->recvs);
	srq->engine = engine;
	srq->type = type;
	srq->srq.context = pd->context;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = pd;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	err = vb_cookie_new(&srq->source, srq);
	if (err)
		goto no_cookie;
	init.cookie = srq->source.cookie;
	err = srq->engine->srq_create(&init, &srq->handle, &srq->srq_num);
	if (err)
		goto no_queue;
	srq->srq.handle = (uint32_t)srq->handle;
	attr->attr = init.attr;
	return &srq->srq;
no_queue:
	vb_cookie_drop(&srq->source);
no_cookie:
	vb_recvs_free(&srq->recvs);
	free(srq);
	errno = err;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_srq *, ibv_create_srq,
	(struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr))
{
	struct ibv_srq_init_attr_ex ex = {0};
	struct ibv_srq *srq;

	if (!pd || !attr) {
		errno = EINVAL;
		return NULL;
	}
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	srq = make(pd, &ex, IBV_SRQT_BASIC);
	if (srq)
		attr->attr = ex.attr;
	return srq;
}

/* The attributes that not all types have. */
#define PARTS (IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM)

/* Checks the attributes: 0 or an errno, and the type in *type. */
static int check(struct ibv_context *ctx, const struct ibv_srq_init_attr_ex *attr,
		 enum ibv_srq_type *type)
{
	uint32_t mask = attr->comp_mask;

	*type = mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	if (mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		return EOPNOTSUPP;
	if (!(mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx)
		return EINVAL;
	switch (*type) {
	case IBV_SRQT_BASIC:
		return mask & PARTS ? EINVAL : 0;
	case IBV_SRQT_XRC:
		if ((mask & PARTS) != (IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ) || !attr->xrcd ||
		    attr->xrcd->context != ctx)
			return EINVAL;
		break;
	case IBV_SRQT_TM:
		if ((mask & PARTS) != (IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ))
			return EINVAL;
		break;
	default:
		return EINVAL;
	}
	return attr->cq && attr->cq->context == ctx ? 0 : EINVAL;
}

VB_RETURNS_POINTER(struct ibv_srq *, vb_create_srq_ex,
	(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr), (ctx, attr))
{
	enum ibv_srq_type type;
	int err;

	err = attr ? check(ctx, attr, &type) : EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	return make(attr->pd, attr, type);
}

VB_RETURNS_ERRNO(vb_get_srq_num, (struct ibv_srq *ibsrq, uint32_t *srq_num), (ibsrq, srq_num))
{
	struct vb_srq *srq = vb_srq_of(ibsrq);

	if (srq->type != IBV_SRQT_XRC)
		return EOPNOTSUPP;
	*srq_num = srq->srq_num;
	return 0;
}

VB_RETURNS_ERRNO(vb_post_srq_ops,
	(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad), (ibsrq, wr, bad))
{
	struct vb_srq *srq = vb_srq_of(ibsrq);
	struct ibv_ops_wr *refused = wr;
	int err;

	vb_order_before(&vb_srq_posts);
	err = srq->engine->srq_post_ops(srq->handle, wr, &refused);
	if (err && bad)
		*bad = refused;
	return err;
}

/* Modifies the size. The lock keeps posts away while the engine moves the receives. */
static int resize(struct vb_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct ibv_device_attr_ex device;
	struct ibv_sge *slots;
	uint64_t slot_mask;
	int err;

	vb_device_attr(vb_context_of(srq->srq.context)->device, &device);
	if (attr->max_wr > (uint32_t)device.orig_attr.max_srq_wr)
		return EINVAL;
	err = vb_recvs_slots(attr->max_wr, srq->recvs.max_sge, &slots, &slot_mask);
	if (err)
		return err;
	vb_lock_take(&srq->recvs.lock);
	err = srq->engine->srq_modify(srq->handle, attr, mask, slots, slot_mask);
	if (err)
		free(slots);
	else
		vb_recvs_move(&srq->recvs, attr->max_wr, slots, slot_mask);
	vb_lock_leave(&srq->recvs.lock);
	return err;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_modify_srq,
	(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask), (ibsrq, attr, mask))
{
	struct vb_srq *srq = vb_srq_of(ibsrq);

	if (!ibsrq || !attr || (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)))
		return EINVAL;
	if (!vb_engine_alive(srq->engine))
		return EIO;
	return mask & IBV_SRQ_MAX_WR ? resize(srq, attr, mask) :
				       srq->engine->srq_modify(srq->handle, attr, mask, NULL, 0);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr),
			   (srq, attr))
{
	if (!srq || !attr)
		return EINVAL;
	*attr = (struct ibv_srq_attr){0};
	return vb_srq_of(srq)->engine->srq_query(vb_srq_of(srq)->handle, attr);
}

static void wait_for_acks(struct vb_srq *srq)
{
	pthread_mutex_lock(&srq->srq.mutex);
	while (srq->srq.events_completed != srq->source.async_reported)
		pthread_cond_wait(&srq->srq.cond, &srq->srq.mutex);
	pthread_mutex_unlock(&srq->srq.mutex);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_srq, (struct ibv_srq *ibsrq), (ibsrq))
{
	struct vb_srq *srq = vb_srq_of(ibsrq);
	struct vb_context *ctx;
	int err;

	if (!ibsrq)
		return EINVAL;
	err = srq->engine->srq_destroy(srq->handle);
	if (err)
		return err;
	vb_cookie_drop(&srq->source);
	ctx = vb_context_of(ibsrq->context);
	vb_pipe_purge(ctx->verbs.context.async_fd, ctx->async_write_fd, sizeof(struct vb_async_event),
		      offsetof(struct vb_async_event, object), srq->source.cookie);
	wait_for_acks(srq);
	pthread_cond_destroy(&srq->srq.cond);
	pthread_mutex_destroy(&srq->srq.mutex);
	vb_recvs_free(&srq->recvs);
	free(srq);
	return 0;
}
