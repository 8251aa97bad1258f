/*
 * Posting: ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3). One call of
 * the engine posts a whole list of sends; receives need none: recvs.c.
 */
#include "qp.h"
#include "srq.h"

#include <errno.h>

int vb_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	*bad = wr;
	return qp->engine->qp_post_send(qp->handle, wr, bad);
}

int vb_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	int err, tell;

	*bad = wr;
	/* In a child of a fork the lock may be another thread's that is not here. */
	if (!vb_engine_alive(qp->engine))
		return EIO;
	err = vb_recvs_post(&qp->recvs, wr, bad, &tell);
	if (tell)
		qp->engine->qp_recvs_told(qp->handle);
	return err;
}

int vb_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_srq *srq = vb_srq_of(ibsrq);
	int tell; /* an SRQ has no states */

	*bad = wr;
	if (!vb_engine_alive(srq->engine))
		return EIO;
	return vb_recvs_post(&srq->recvs, wr, bad, &tell);
}
