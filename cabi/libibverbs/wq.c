/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queues and the tables that spread frames over them: ibv_create_wq(3), ibv_modify_wq(3),
 * ibv_create_rwq_ind_table(3).
 */
#include "wq.h"
#include "cq.h"
#include "order.h"
#include "pd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct vb_wq {
	struct ibv_wq wq;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
	struct vb_recvs recvs;
};

static VB_RETURNS_ERRNO(post_wq_recv,
	(struct ibv_wq *ibwq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (ibwq, wr, bad))
{
	struct vb_wq *wq = (struct vb_wq *)ibwq;
	struct ibv_recv_wr *refused = wr;
	int err, tell = 0;

	vb_order_before(ibwq->cq);
	/* In a child of a fork the lock may be another thread's that is not here. */
	err = vb_engine_alive(wq->engine) ? vb_recvs_post(&wq->recvs, wr, &refused, &tell) : EIO;
	if (err && bad)
		*bad = refused;
	if (tell)
		wq->engine->wq_recvs_posted(wq->handle);
	return err;
}

static int check(struct ibv_context *ctx, const struct ibv_wq_init_attr *attr)
{
	if (attr->comp_mask >= IBV_WQ_INIT_ATTR_RESERVED ||
	    ((attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) && attr->create_flags))
		return EOPNOTSUPP;
	if (attr->wq_type != IBV_WQT_RQ || !attr->pd || attr->pd->context != ctx || !attr->cq ||
	    attr->cq->context != ctx)
		return EINVAL;
	return vb_cq_of(attr->cq)->engine == vb_pd_of(attr->pd)->engine ? 0 : EIO;
}

VB_RETURNS_POINTER(struct ibv_wq *, vb_create_wq,
	(struct ibv_context *ctx, struct ibv_wq_init_attr *attr), (ctx, attr))
{
	struct vb_recv_memory memory;
	struct vb_wq *wq;
	int err;

	err = ctx && attr ? check(ctx, attr) : EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	wq = aligned_alloc(_Alignof(struct vb_wq), sizeof(*wq)); /* the ring needs the alignment */
	if (!wq)
		return NULL;
	memset(wq, 0, sizeof(*wq));
	err = vb_recvs_new(&wq->recvs, vb_context_of(ctx)->device, attr->max_wr, attr->max_sge);
	if (err)
		goto failed;
	memory = vb_recvs_memory(&wq->recvs);
	wq->engine = vb_pd_of(attr->pd)->engine;
	err = wq->engine->pd_wq_create(vb_pd_handle(attr->pd), vb_cq_of(attr->cq)->handle, attr->max_wr,
				    attr->max_sge, &memory, &wq->handle, &wq->wq.wq_num);
	if (err)
		goto failed;
	wq->wq.context = ctx;
	wq->wq.wq_context = attr->wq_context;
	wq->wq.pd = attr->pd;
	wq->wq.cq = attr->cq;
	wq->wq.handle = (uint32_t)wq->handle;
	wq->wq.state = IBV_WQS_RESET;
	wq->wq.wq_type = attr->wq_type;
	wq->wq.post_recv = post_wq_recv;
	pthread_mutex_init(&wq->wq.mutex, NULL);
	pthread_cond_init(&wq->wq.cond, NULL);
	return &wq->wq;
failed:
	vb_recvs_free(&wq->recvs);
	free(wq);
	errno = err;
	return NULL;
}

VB_RETURNS_ERRNO(vb_modify_wq, (struct ibv_wq *ibwq, struct ibv_wq_attr *attr), (ibwq, attr))
{
	struct vb_wq *wq = (struct vb_wq *)ibwq;
	struct vb_cq *cq;
	int err;

	if (!ibwq || !attr || attr->attr_mask >= IBV_WQ_ATTR_RESERVED)
		return EINVAL;
	if ((attr->attr_mask & IBV_WQ_ATTR_FLAGS) && (attr->flags & attr->flags_mask))
		return EOPNOTSUPP;
	if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) && attr->curr_wq_state != ibwq->state)
		return EINVAL;
	if (!(attr->attr_mask & IBV_WQ_ATTR_STATE))
		return 0;
	if (!vb_engine_alive(wq->engine))
		return EIO;
	cq = vb_cq_of(ibwq->cq);
	vb_cq_lock(cq, NULL); /* RESET removes completions */
	err = wq->engine->wq_modify(wq->handle, attr->wq_state);
	vb_cq_unlock(cq, NULL);
	if (!err)
		ibwq->state = attr->wq_state;
	return err;
}

VB_RETURNS_ERRNO(vb_destroy_wq, (struct ibv_wq *ibwq), (ibwq))
{
	struct vb_wq *wq = (struct vb_wq *)ibwq;
	struct vb_cq *cq;
	int err;

	if (!ibwq)
		return EINVAL;
	if (!vb_engine_alive(wq->engine))
		return EIO;
	cq = vb_cq_of(ibwq->cq);
	vb_cq_lock(cq, NULL);
	err = wq->engine->wq_destroy(wq->handle);
	vb_cq_unlock(cq, NULL);
	if (err)
		return err;
	pthread_cond_destroy(&ibwq->cond);
	pthread_mutex_destroy(&ibwq->mutex);
	vb_recvs_free(&wq->recvs);
	free(wq);
	return 0;
}

/* -- tables --------------------------------------------------------------------- */

#define MAX_LOG_SIZE 16 /* the engine knows the limit */

VB_RETURNS_POINTER(struct ibv_rwq_ind_table *, vb_create_rwq_ind_table,
	(struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *attr), (ctx, attr))
{
	struct vb_rwq_table *t;
	vb_handle handle, *wqs;
	size_t n;
	int err = 0;

	if (!ctx || !attr || !attr->ind_tbl || attr->comp_mask ||
	    attr->log_ind_tbl_size > MAX_LOG_SIZE) {
		errno = EINVAL;
		return NULL;
	}
	n = (size_t)1 << attr->log_ind_tbl_size;
	t = calloc(1, sizeof(*t));
	wqs = calloc(n, sizeof(*wqs));
	if (!t || !wqs)
		err = ENOMEM;
	if (!err)
		err = vb_enter(ctx, &t->engine, &handle);
	for (size_t i = 0; !err && i < n; i++) {
		struct vb_wq *wq = (struct vb_wq *)attr->ind_tbl[i];

		if (!wq || wq->wq.context != ctx)
			err = EINVAL;
		else if (wq->engine != t->engine)
			err = EIO;
		else
			wqs[i] = wq->handle;
	}
	if (!err)
		err = t->engine->ctx_spread_create(handle, wqs, (uint32_t)n, &t->handle);
	free(wqs);
	if (err) {
		free(t);
		errno = err;
		return NULL;
	}
	t->table.context = ctx;
	t->table.ind_tbl_handle = t->table.ind_tbl_num = (int)(uint32_t)t->handle;
	return &t->table;
}

VB_RETURNS_ERRNO(vb_destroy_rwq_ind_table, (struct ibv_rwq_ind_table *table), (table))
{
	struct vb_rwq_table *t = (struct vb_rwq_table *)table;
	int err;

	if (!table)
		return EINVAL;
	if (!vb_engine_alive(t->engine))
		return EIO;
	err = t->engine->spread_destroy(t->handle);
	if (!err)
		free(t);
	return err;
}
