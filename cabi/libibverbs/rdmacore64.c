/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that rdma-core has added since 44, in IBVERBS_1.15 and 1.16, and that no device of ours
 * has: DMA hints for a PCI device, memory of a device, the speed of a port apart from its
 * attributes. They return the same as a provider without them. buf.c and compcntr.c have those that
 * work.
 *
 * The functions are defined without the arguments that they ignore.
 */
#include "front.h"

#include <errno.h>

#define NONE_RETURNS_NULL(name)                                \
	VB_EXPORT VB_RETURNS_POINTER(void *, name, (void), ()) \
	{                                                      \
		errno = EOPNOTSUPP;                            \
		return NULL;                                   \
	}

#define NONE_RETURNS_ERRNO(name)                     \
	VB_EXPORT VB_RETURNS_ERRNO(name, (void), ()) \
	{                                            \
		return EOPNOTSUPP;                   \
	}

/* IBVERBS_1.15 */
NONE_RETURNS_NULL(ibv_alloc_dmah)
NONE_RETURNS_ERRNO(ibv_dealloc_dmah)

/* IBVERBS_1.16 */
NONE_RETURNS_ERRNO(ibv_query_port_speed)

VB_EXPORT VB_RETURNS_COUNT(int, ibv_dm_export_dmabuf_fd, (void), ())
{
	errno = EOPNOTSUPP;
	return -1;
}
