/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, and Enhanced Connection Establishment: rdma_set_option(3), rdma_set_local_ece(3).
 *
 * ECE lets two devices of one vendor agree on extensions. This device has none: queue pairs of
 * identifiers offer nothing. The messages of an application that brings its own queue pair carry
 * what it says, as those of the kernel do.
 */
#include "cm.h"

VB_EXPORT VB_RETURNS_COUNT(int, rdma_set_option,
	(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen),
	(id, level, optname, optval, optlen))
{
	if (!id || (optlen && !optval))
		return cm_fail(EINVAL);
	return cm_result(cm_id_of(id)->engine->cm_set_option(cm_id_of(id)->handle, level, optname,
							     optval, optlen));
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_set_local_ece, (struct rdma_cm_id *id, struct ibv_ece *ece),
			   (id, ece))
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return cm_fail(EINVAL);
	cm_id_of(id)->local_ece = *ece;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_get_remote_ece, (struct rdma_cm_id *id, struct ibv_ece *ece),
			   (id, ece))
{
	if (!id || id->qp || !ece)
		return cm_fail(EINVAL);
	*ece = cm_id_of(id)->remote_ece;
	return 0;
}
