/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains.
 */
#ifndef VERBENA_XRCD_H
#define VERBENA_XRCD_H

#include "front.h"

struct vb_xrcd {
	struct ibv_xrcd xrcd;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
};

static inline struct vb_xrcd *vb_xrcd_of(struct ibv_xrcd *xrcd)
{
	return (struct vb_xrcd *)xrcd;
}

struct ibv_xrcd *vb_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int vb_close_xrcd(struct ibv_xrcd *xrcd);

#endif
