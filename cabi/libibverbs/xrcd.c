/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: ibv_open_xrcd(3). Contexts that open a domain by the same inode share it, also those
 * of other processes of the user.
 */
#include "xrcd.h"
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

VB_RETURNS_POINTER(struct ibv_xrcd *, vb_open_xrcd,
	(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr), (ctx, attr))
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	const struct vb_engine *engine;
	struct vb_xrcd *x;
	vb_handle handle;
	int err;

	if (!attr || attr->comp_mask != need) {
		errno = attr && (attr->comp_mask & ~need) ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	err = vb_enter(ctx, &engine, &handle);
	if (err) {
		errno = err;
		return NULL;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	err = engine->xrcd_open(handle, attr->fd, attr->oflags, &x->handle);
	if (err) {
		free(x);
		errno = err;
		return NULL;
	}
	x->engine = engine;
	x->xrcd.context = ctx;
	return &x->xrcd;
}

VB_RETURNS_ERRNO(vb_close_xrcd, (struct ibv_xrcd *xrcd), (xrcd))
{
	struct vb_xrcd *x = vb_xrcd_of(xrcd);
	int err;

	err = x->engine->xrcd_close(x->handle);
	if (err)
		return err;
	free(x);
	return 0;
}
