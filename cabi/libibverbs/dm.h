/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: memory of the library's that regions may have. */
#ifndef VERBENA_DM_H
#define VERBENA_DM_H

#include "front.h"

struct vb_dm {
	struct ibv_dm dm;
	/* immutable */
	const struct vb_engine *engine;
	char *at;
	size_t length;
	int imported;	/* another object has the handle */
	uint64_t place; /* in the file of the context (share.h) */
	/* atomic */
	_Atomic unsigned regions; /* number of regions of it and VB_DM_LEFT, or VB_DM_FREED */
};

#define VB_DM_FREED UINT32_MAX
#define VB_DM_LEFT (UINT32_C(1) << 31) /* the last region frees it */

/* Reports whether length bytes from an offset on are inside. */
static inline int vb_dm_has(const struct vb_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/* Counts a region, so that vb_free_dm refuses: 0, or EINVAL if the memory is being freed. */
int vb_dm_use(struct vb_dm *dm);

/* Ends the use of a region. */
void vb_dm_unuse(struct vb_dm *dm);

struct ibv_dm *vb_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int vb_free_dm(struct ibv_dm *dm);

#endif
