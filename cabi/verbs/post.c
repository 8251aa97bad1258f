/*
 * Posting: ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3). One call of
 * the engine posts the whole list.
 */
#include "qp.h"
#include "srq.h"

int vb_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	*bad = wr;
	return qp->engine->qp_post_send(qp->handle, wr, bad);
}

int vb_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	*bad = wr;
	return qp->engine->qp_post_recv(qp->handle, wr, bad);
}

int vb_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_srq *srq = vb_srq_of(ibsrq);

	*bad = wr;
	return srq->engine->srq_post_recv(srq->handle, wr, bad);
}
