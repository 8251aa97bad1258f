/*
 * What rdma-core has added since 44: IBVERBS_1.15 to 1.17, of 64. None of it is
 * something that this device has: DMA hints for a PCI device, memory of a
 * device, buffers of an allocator of its own, and a port's speed apart from its
 * attributes. A provider without them returns the same.
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
NONE_RETURNS_NULL(ibv_reg_mr_ex)

/* IBVERBS_1.16 */
NONE_RETURNS_ERRNO(ibv_query_port_speed)

VB_EXPORT VB_RETURNS_COUNT(int, ibv_dm_export_dmabuf_fd, (void), ())
{
	errno = EOPNOTSUPP;
	return -1;
}

/* IBVERBS_1.17 */
NONE_RETURNS_NULL(ibv_alloc_buf)
NONE_RETURNS_NULL(ibv_reg_buf_mr)

/* Nothing was allocated. */
VB_EXPORT VB_RETURNS_NOTHING(ibv_free_buf, (void), ())
{
}
