/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that rdma-core has added since 44, in IBVERBS_1.15 to 1.18, and that no device of ours
 * has: DMA hints for a PCI device, memory of a device, the speed of a port apart from its
 * attributes, counters of completions. They return the same as a provider without them. buf.c has
 * those that work.
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

/* IBVERBS_1.18 */
NONE_RETURNS_ERRNO(_ibv_query_comp_cntr_caps)
NONE_RETURNS_NULL(ibv_create_comp_cntr)
NONE_RETURNS_ERRNO(ibv_destroy_comp_cntr)
NONE_RETURNS_ERRNO(ibv_inc_comp_cntr)
NONE_RETURNS_ERRNO(ibv_inc_err_comp_cntr)
NONE_RETURNS_ERRNO(ibv_qp_attach_comp_cntr)
NONE_RETURNS_ERRNO(ibv_read_comp_cntr)
NONE_RETURNS_ERRNO(ibv_read_err_comp_cntr)
NONE_RETURNS_ERRNO(ibv_set_comp_cntr)
NONE_RETURNS_ERRNO(ibv_set_err_comp_cntr)
