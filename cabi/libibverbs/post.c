/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3). One call of the engine posts a
 * whole list of sends. Receives need no call: recvs.c.
 *
 * *bad_wr is written only when a post fails: applications assert that it is unchanged otherwise.
 * bad_wr may be NULL.
 */
#include "order.h"
#include "qp.h"
#include "srq.h"

#include <errno.h>

VB_RETURNS_ERRNO(vb_post_send,
	(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad), (ibqp, wr, bad))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct ibv_send_wr *refused = wr; /* in a child of a fork the engine writes nothing */
	int err;

	vb_order_before(ibqp->send_cq);
	err = qp->engine->qp_post_send(qp->handle, wr, &refused);
	if (err && bad)
		*bad = refused;
	return err;
}

/* Posts to a receive queue. EIO if its engine is dead. */
static int post_recvs(struct vb_recvs *recvs, const struct vb_engine *engine,
		      struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, int *tell)
{
	struct ibv_recv_wr *refused = wr;
	int err;

	*tell = 0;
	/* In a child of a fork the lock may be another thread's that is not here. */
	err = vb_engine_alive(engine) ? vb_recvs_post(recvs, wr, &refused, tell) : EIO;
	if (err && bad)
		*bad = refused;
	return err;
}

VB_RETURNS_ERRNO(vb_post_recv,
	(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (ibqp, wr, bad))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	int err, tell;

	vb_order_before(ibqp->recv_cq);
	err = post_recvs(&qp->recvs, qp->engine, wr, bad, &tell);
	if (tell)
		qp->engine->qp_recvs_posted(qp->handle);
	return err;
}

VB_RETURNS_ERRNO(vb_post_srq_recv,
	(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (ibsrq, wr, bad))
{
	struct vb_srq *srq = vb_srq_of(ibsrq);
	int tell; /* an SRQ has no states */

	vb_order_before(&vb_srq_posts);
	return post_recvs(&srq->recvs, srq->engine, wr, bad, &tell);
}
