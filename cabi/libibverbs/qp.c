/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3).
 */
#include "qp.h"
#include "device_limits.h"
#include "pd.h"
#include "pipe.h"
#include "srq.h"
#include "wq.h"
#include "xrcd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- creating --------------------------------------------------------------- */

static int is_ours(const struct ibv_cq *cq, struct ibv_context *ctx)
{
	return cq && cq->context == ctx;
}

/* A raw packet queue pair that spreads frames over work queues. */
#define SPREADS (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)
#define KEY_BYTES 40

static int check_spread(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;

	if (attr->qp_type != IBV_QPT_RAW_PACKET ||
	    hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;
	return (attr->comp_mask & SPREADS) == SPREADS && (attr->comp_mask & IBV_QP_INIT_ATTR_PD) &&
			       attr->pd && attr->rwq_ind_tbl && attr->rwq_ind_tbl->context == ctx &&
			       hash->rx_hash_key && hash->rx_hash_key_len == KEY_BYTES
		       ? 0
		       : EINVAL;
}

/* Checks the attributes of a new queue pair: 0 or an errno. */
static int check(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       SPREADS;
	uint32_t mask = attr->comp_mask;
	const struct ibv_pd *pd = mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;

	if ((mask & ~known) || ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags))
		return EOPNOTSUPP;
	if ((mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    (attr->send_ops_flags & ~vb_send_ops(attr->qp_type)))
		return EOPNOTSUPP;
	if (pd && pd->context != ctx)
		return EINVAL;
	if (mask & SPREADS)
		return check_spread(ctx, attr);
	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
		if (!pd || !is_ours(attr->send_cq, ctx) || !is_ours(attr->recv_cq, ctx) ||
		    (attr->srq && attr->srq->context != ctx))
			return EINVAL;
		return 0;
	case IBV_QPT_XRC_SEND:
		return pd && is_ours(attr->send_cq, ctx) ? 0 : EINVAL;
	case IBV_QPT_XRC_RECV:
		return (mask & IBV_QP_INIT_ATTR_XRCD) && attr->xrcd && attr->xrcd->context == ctx
			       ? 0
			       : EINVAL;
	case IBV_QPT_DRIVER:
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
}

/* Returns the queues that its type has: XRC queue pairs lack one of the two. */
static void set_queues(struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	int sends = attr->qp_type != IBV_QPT_XRC_RECV && !(attr->comp_mask & SPREADS);
	int receives = sends && attr->qp_type != IBV_QPT_XRC_SEND;

	qp->qp_context = attr->qp_context;
	qp->qp_type = attr->qp_type;
	qp->pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	qp->send_cq = sends ? attr->send_cq : NULL;
	qp->recv_cq = receives ? attr->recv_cq : NULL;
	qp->srq = receives ? attr->srq : NULL;
}

static void set_init(struct vb_qp_init *init, struct vb_qp *qp,
		     const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp *q = &qp->ibv.qp;

	*init = (struct vb_qp_init){
		.type = q->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.cap = attr->cap,
		.pd = q->pd ? vb_pd_handle(q->pd) : 0,
		.send_cq = q->send_cq ? vb_cq_of(q->send_cq)->handle : 0,
		.recv_cq = q->recv_cq ? vb_cq_of(q->recv_cq)->handle : 0,
		.srq = q->srq ? vb_srq_of(q->srq)->handle : 0,
		.xrcd = q->qp_type == IBV_QPT_XRC_RECV ? vb_xrcd_of(attr->xrcd)->handle : 0,
		.cookie = qp->source.cookie,
		.recv = vb_recvs_memory(&qp->recvs),
	};
	/*
	 * Other devices put inline data in the room of the gather list, so that a queue pair always has
	 * some. rdma_xclient(1) sends inline without asking for it.
	 */
	if (init->cap.max_inline_data < init->cap.max_send_sge * sizeof(struct ibv_sge))
		init->cap.max_inline_data = init->cap.max_send_sge * sizeof(struct ibv_sge);
}

/* Returns whether all objects belong to the live engine, and none is from before a fork. */
static int of_one_engine(const struct vb_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp *q = &qp->ibv.qp;
	const struct vb_engine *e = qp->engine;

	return (!q->pd || vb_pd_of(q->pd)->engine == e) &&
	       (!q->send_cq || vb_cq_of(q->send_cq)->engine == e) &&
	       (!q->recv_cq || vb_cq_of(q->recv_cq)->engine == e) &&
	       (!q->srq || vb_srq_of(q->srq)->engine == e) &&
	       (q->qp_type != IBV_QPT_XRC_RECV || vb_xrcd_of(attr->xrcd)->engine == e) &&
	       (!(attr->comp_mask & SPREADS) ||
		((struct vb_rwq_table *)attr->rwq_ind_tbl)->engine == e);
}

static struct vb_qp *alloc_qp(struct ibv_context *ctx)
{
	struct vb_qp *qp =
		aligned_alloc(_Alignof(struct vb_qp), sizeof(*qp)); /* the ring needs the alignment */

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	qp->ibv.qp.context = ctx;
	qp->ibv.qp.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.qp.mutex, NULL);
	pthread_cond_init(&qp->ibv.qp.cond, NULL);
	if (vb_cookie_new(&qp->source, qp)) {
		free(qp);
		return NULL;
	}
	return qp;
}

/* Frees the queue pair. A pending event is dropped, and those handed out are waited for. */
static void free_qp(struct vb_qp *qp)
{
	struct ibv_qp *q = &qp->ibv.qp;
	struct vb_context *ctx = vb_context_of(q->context);

	vb_cookie_drop(&qp->source);
	vb_pipe_purge(ctx->verbs.context.async_fd, ctx->async_write_fd, sizeof(struct vb_async_event),
		      offsetof(struct vb_async_event, object), qp->source.cookie);
	pthread_mutex_lock(&q->mutex);
	while (q->events_completed != qp->source.async_reported)
		pthread_cond_wait(&q->cond, &q->mutex);
	pthread_mutex_unlock(&q->mutex);
	pthread_cond_destroy(&q->cond);
	pthread_mutex_destroy(&q->mutex);
	vb_batch_free(qp->batch);
	vb_recvs_free(&qp->recvs);
	free(qp);
}

static struct vb_cq *cq_or_null(struct ibv_cq *cq)
{
	return cq ? vb_cq_of(cq) : NULL;
}

/* Ends the queue pair of the engine. Its completions leave their queues. */
static int destroy(struct vb_qp *qp)
{
	struct vb_cq *send = cq_or_null(qp->ibv.qp.send_cq), *recv = cq_or_null(qp->ibv.qp.recv_cq);
	int err;

	if (!vb_engine_alive(qp->engine))
		return EIO;
	vb_cq_lock(send, recv);
	err = qp->engine->qp_destroy(qp->handle);
	vb_cq_unlock(send, recv);
	return err;
}

VB_RETURNS_POINTER(struct ibv_qp *, vb_create_qp_ex,
	(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr), (ctx, attr))
{
	struct vb_qp_init init;
	struct vb_qp *qp;
	vb_handle handle;
	int err;

	err = ctx && attr ? check(ctx, attr) : EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	qp = alloc_qp(ctx);
	if (!qp)
		return NULL;
	err = vb_enter(ctx, &qp->engine, &handle);
	if (err)
		goto no_queue;
	set_queues(&qp->ibv.qp, attr);
	if (!of_one_engine(qp, attr)) {
		err = EIO;
		goto no_queue;
	}
	if (attr->comp_mask & SPREADS) {
		err = qp->engine->pd_qp_spread(vb_pd_handle(attr->pd),
			((struct vb_rwq_table *)attr->rwq_ind_tbl)->handle,
			attr->rx_hash_conf.rx_hash_key, attr->rx_hash_conf.rx_hash_fields_mask,
			qp->source.cookie, &qp->handle, &qp->ibv.qp.qp_num);
		if (err)
			goto no_queue;
		qp->ibv.qp.handle = (uint32_t)qp->handle;
		memset(&attr->cap, 0, sizeof(attr->cap));
		return &qp->ibv.qp;
	}
	if (qp->ibv.qp.recv_cq && !qp->ibv.qp.srq) {
		err = vb_recvs_new(&qp->recvs, vb_context_of(ctx)->device, attr->cap.max_recv_wr,
				   attr->cap.max_recv_sge);
		if (err)
			goto no_queue;
	}
	set_init(&init, qp, attr);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		init.cap.max_inline_data = vb_inline_for(attr->send_ops_flags, init.cap.max_inline_data);
	err = qp->engine->qp_create(&init, &qp->handle, &qp->ibv.qp.qp_num);
	if (err)
		goto no_queue;
	qp->ibv.qp.handle = (uint32_t)qp->handle;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		err = vb_batch_new(qp, &init.cap, attr->send_ops_flags);
		if (err) {
			destroy(qp);
			goto no_queue;
		}
	}
	attr->cap = init.cap;
	return &qp->ibv.qp;
no_queue:
	free_qp(qp);
	errno = err;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_qp *, ibv_create_qp,
	(struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr))
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct ibv_qp *qp;

	if (!pd || !attr) {
		errno = EINVAL;
		return NULL;
	}
	memcpy(&ex, attr, sizeof(*attr)); /* the extended structure begins with the same members */
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	qp = vb_create_qp_ex(pd->context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/* -- opening ---------------------------------------------------------------- */

VB_RETURNS_POINTER(struct ibv_qp *, vb_open_qp,
		   (struct ibv_context *ctx, struct ibv_qp_open_attr *attr), (ctx, attr))
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct vb_xrcd *xrcd;
	struct vb_qp *qp;
	int err;

	if (!ctx || !attr || (attr->comp_mask & need) != need ||
	    attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED || attr->qp_type != IBV_QPT_XRC_RECV ||
	    !attr->xrcd || attr->xrcd->context != ctx) {
		errno = EINVAL;
		return NULL;
	}
	xrcd = vb_xrcd_of(attr->xrcd);
	qp = alloc_qp(ctx);
	if (!qp)
		return NULL;
	qp->engine = xrcd->engine;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		qp->ibv.qp.qp_context = attr->qp_context;
	qp->ibv.qp.qp_type = IBV_QPT_XRC_RECV;
	qp->ibv.qp.qp_num = attr->qp_num;
	qp->ibv.qp.state = IBV_QPS_UNKNOWN; /* until the queue pair is queried or modified */
	err = xrcd->engine->qp_open(xrcd->handle, attr->qp_num, qp->source.cookie, &qp->handle);
	if (err) {
		free_qp(qp);
		errno = err == ENOENT ? EINVAL : err; /* the answer of the kernel if there is none */
		return NULL;
	}
	qp->ibv.qp.handle = (uint32_t)qp->handle;
	return &qp->ibv.qp;
}

/* -- life ------------------------------------------------------------------- */

VB_EXPORT VB_RETURNS_ERRNO(ibv_modify_qp,
	(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask), (ibqp, attr, mask))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_cq *send, *recv;
	int err, reset;

	if (!ibqp || !attr || ((mask & IBV_QP_AV) && !attr->ah_attr.port_num))
		return EINVAL;
	if (!vb_engine_alive(qp->engine))
		return EIO;
	send = cq_or_null(ibqp->send_cq);
	recv = cq_or_null(ibqp->recv_cq);
	reset = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	if (reset)
		vb_cq_lock(send, recv);
	err = qp->engine->qp_modify(qp->handle, attr, mask);
	if (reset)
		vb_cq_unlock(send, recv);
	if (!err && (mask & IBV_QP_STATE))
		ibqp->state = attr->qp_state;
	return err;
}

VB_RETURNS_ERRNO(vb_modify_qp_rate_limit,
	(struct ibv_qp *ibqp, struct ibv_qp_rate_limit_attr *attr), (ibqp, attr))
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	if (!ibqp || !attr || attr->comp_mask)
		return EINVAL;
	if (!vb_context_of(ibqp->context)->device->kind->packet_pacing_caps.qp_rate_limit_max)
		return EOPNOTSUPP;
	if (!vb_engine_alive(qp->engine))
		return EIO;
	return qp->engine->qp_limit_rate(qp->handle, attr);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_query_qp,
	(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
	(ibqp, attr, mask, init))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	int err;

	if (!ibqp || !attr || !init)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	err = qp->engine->qp_query(qp->handle, attr, init);
	if (err)
		return err;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->qp_type = ibqp->qp_type;
	/*
	 * Fills in all attributes, even those not in the mask. The state in the structure changes only
	 * if the mask asks for it, because other threads may read it there: UCX asserts on it.
	 */
	if (mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	return 0;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_qp, (struct ibv_qp *ibqp), (ibqp))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	int err;

	if (!ibqp)
		return EINVAL;
	err = destroy(qp);
	if (err)
		return err;
	free_qp(qp);
	return 0;
}
