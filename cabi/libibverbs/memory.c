/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of objects that a parent domain's allocators may give:
 * ibv_alloc_parent_domain(3). These are the rings of completion queues, which
 * grow with what the application asks for; our own few bytes are malloc's.
 */
#include "pd.h"

#include <stdlib.h>

#define ALIGNMENT 64 /* of a cache line */

/* The driver in the upper half, which is none of the kernel's, and what for. */
#define RING_OF_CQ UINT64_C(1)

struct vb_memory vb_memory_new(struct vb_pd *pd, size_t n, size_t size)
{
	struct vb_memory m = {0};

	if (pd && pd->alloc) {
		m.at = pd->alloc(&pd->pd, pd->alloc_context, n * size, ALIGNMENT, RING_OF_CQ);
		if (m.at != IBV_ALLOCATOR_USE_DEFAULT) {
			m.theirs = pd;
			return m;
		}
	}
	m.at = calloc(n, size);
	return m;
}

void vb_memory_free(struct vb_memory m)
{
	if (m.theirs)
		m.theirs->free(&m.theirs->pd, m.theirs->alloc_context, m.at, RING_OF_CQ);
	else
		free(m.at);
}
