/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of another process by the handle of the kernel: ibv_import_device(3), ibv_import_pd(3),
 * ibv_import_mr(3), ibv_import_dm(3). The kernel has no handles of our objects, so these fail with
 * EOPNOTSUPP, as with a provider without them.
 */
#include "front.h"

#include <errno.h>

VB_EXPORT VB_RETURNS_POINTER(struct ibv_context *, ibv_import_device, (int cmd_fd), (cmd_fd))
{
	(void)cmd_fd;
	errno = EOPNOTSUPP;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_pd *, ibv_import_pd,
	(struct ibv_context *ctx, uint32_t handle), (ctx, handle))
{
	(void)ctx;
	(void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle),
			     (pd, handle))
{
	(void)pd;
	(void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_dm *, ibv_import_dm,
	(struct ibv_context *ctx, uint32_t handle), (ctx, handle))
{
	(void)ctx;
	(void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

/* There is no imported object to release. */
VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_pd, (struct ibv_pd *pd), (pd))
{
	(void)pd;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_mr, (struct ibv_mr *mr), (mr))
{
	(void)mr;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_dm, (struct ibv_dm *dm), (dm))
{
	(void)dm;
}
