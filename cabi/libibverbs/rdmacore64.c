/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that rdma-core has added since 44, in IBVERBS_1.16: ibv_query_port_speed(3), and the
 * descriptor of device memory, which ours does not have. buf.c, compcntr.c and dmah.c have others.
 */
#include "front.h"

#include <errno.h>

/* The unit of ibv_query_port_speed: 100 Mb/s. Those of ibv_query_port: lanes, and 2.5 Gb/s. */
#define UNITS_PER_SPEED 25

VB_EXPORT VB_RETURNS_ERRNO(ibv_query_port_speed,
	(struct ibv_context *ctx, uint32_t port_num, uint64_t *port_speed),
	(ctx, port_num, port_speed))
{
	struct ibv_port_attr attr;

	if (!ctx || port_num != 1 || !port_speed)
		return EINVAL;
	vb_port_attr(vb_context_of(ctx)->device, &attr);
	/* One lane of the lowest speed, as with rdma_rxe: device_limits.h. */
	*port_speed = (uint64_t)attr.active_width * attr.active_speed * UNITS_PER_SPEED;
	return 0;
}

/* The descriptor of a dma-buf. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_dm_export_dmabuf_fd, (void), ())
{
	errno = EOPNOTSUPP;
	return -1;
}
