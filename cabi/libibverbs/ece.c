/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment: ibv_set_ece(3), ibv_query_ece(3). ECE are vendor options of a
 * queue pair. This device has none, and both calls answer like drivers of rdma-core without them:
 * programs go on without.
 *
 * ibv_query_qp_data_in_order(3): payload is placed as packets arrive, in any order.
 */
#include "front.h"

#include <errno.h>
#include <string.h>

VB_EXPORT VB_RETURNS_ERRNO(ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))
{
	(void)qp;
	if (ece)
		memset(ece, 0, sizeof(*ece));
	return EOPNOTSUPP;
}

VB_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
