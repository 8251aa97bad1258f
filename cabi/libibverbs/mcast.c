/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: ibv_attach_mcast(3). In RoCE the GID alone names a group. */
#include "qp.h"

#include <errno.h>

VB_EXPORT VB_RETURNS_ERRNO(ibv_attach_mcast,
	(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid), (ibqp, gid, lid))
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	(void)lid;
	if (!ibqp || !gid || ibqp->qp_type != IBV_QPT_UD)
		return EINVAL;
	return qp->engine->qp_attach_mcast(qp->handle, gid);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_detach_mcast,
	(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid), (ibqp, gid, lid))
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	(void)lid;
	if (!ibqp || !gid || ibqp->qp_type != IBV_QPT_UD)
		return EINVAL;
	return qp->engine->qp_detach_mcast(qp->handle, gid);
}
