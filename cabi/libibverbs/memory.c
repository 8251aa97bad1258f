/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory from the allocators of a parent domain: ibv_alloc_parent_domain(3). They give the rings of
 * completion queues, whose size the application chooses. The other structures, some bytes each, are
 * malloc'ed.
 */
#include "pd.h"

#include <stdlib.h>

#define ALIGNMENT 64 /* bytes of a cache line */

/* The driver, which the kernel does not have, in the upper half; the purpose in the lower half. */
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
