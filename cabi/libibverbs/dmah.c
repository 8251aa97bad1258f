/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA handles, of rdma-core 59: ibv_alloc_dmah(3). A handle has hints for the transactions of a
 * PCI device: the processor whose cache gets the data, and the kind of memory. The library copies
 * data with the processor that runs it, so the hints are checked and change nothing.
 */
#include "dmah.h"
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Laid out as in the <infiniband/verbs.h> of rdma-core 65. */
struct ibv_dmah_init_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type;
};

/* comp_mask. */
#define HAS_CPU_ID	 (1 << 0)
#define HAS_PH		 (1 << 1)
#define HAS_TPH_MEM_TYPE (1 << 2)
#define KNOWN		 (HAS_CPU_ID | HAS_PH | HAS_TPH_MEM_TYPE)

#define MAX_PH		 3 /* a field of two bits */
#define MAX_TPH_MEM_TYPE 1 /* persistent memory */

static int check(const struct ibv_dmah_init_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)KNOWN)
		return EOPNOTSUPP;
	if ((attr->comp_mask & HAS_CPU_ID) && attr->cpu_id >= sysconf(_SC_NPROCESSORS_CONF))
		return EINVAL;
	if ((attr->comp_mask & HAS_PH) && attr->ph > MAX_PH)
		return EINVAL;
	if ((attr->comp_mask & HAS_TPH_MEM_TYPE) && attr->tph_mem_type > MAX_TPH_MEM_TYPE)
		return EINVAL;
	return 0;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_dmah *, ibv_alloc_dmah,
	(struct ibv_context *ctx, struct ibv_dmah_init_attr *attr), (ctx, attr))
{
	int err = ctx && attr ? check(attr) : EINVAL;
	struct ibv_dmah *dmah;

	if (err) {
		errno = err;
		return NULL;
	}
	dmah = calloc(1, sizeof(*dmah));
	if (dmah)
		dmah->context = ctx;
	return dmah;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_dealloc_dmah, (struct ibv_dmah *dmah), (dmah))
{
	if (!dmah)
		return EINVAL;
	free(dmah);
	return 0;
}
