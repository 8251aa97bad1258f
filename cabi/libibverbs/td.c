/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains: ibv_alloc_td(3), ibv_alloc_parent_domain(3). A thread domain
 * promises that one thread at a time uses its objects. Our locks take some nanoseconds, and are
 * taken all the same: destroying a queue pair needs them.
 */
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

VB_RETURNS_POINTER(struct ibv_td *, vb_alloc_td,
	(struct ibv_context *ctx, struct ibv_td_init_attr *attr), (ctx, attr))
{
	struct vb_td *td;

	if (!attr || attr->comp_mask) {
		errno = attr ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->td.context = ctx;
	return &td->td;
}

VB_RETURNS_ERRNO(vb_dealloc_td, (struct ibv_td *ibtd), (ibtd))
{
	struct vb_td *td = (struct vb_td *)ibtd;

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/*
 * IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 65: in a confidential guest
 * memory may be shared with a device that does not reach it otherwise. Here plain memory serves, as
 * with each device without IBV_DEVICE_CC_DMA_BOUNCE.
 */
#define ALLOW_CC_UNPROTECTED_ALLOC (UINT32_C(1) << 2)

static int check_options(const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_CC_UNPROTECTED_ALLOC;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
		return EINVAL; /* free takes back the memory of alloc */
	return 0;
}

VB_RETURNS_POINTER(struct ibv_pd *, vb_alloc_parent_domain,
	(struct ibv_context *ctx, struct ibv_parent_domain_init_attr *attr), (ctx, attr))
{
	struct vb_pd *pd, *origin;
	int err;

	if (!attr || !attr->pd || attr->pd->context != ctx || (attr->td && attr->td->context != ctx)) {
		errno = EINVAL;
		return NULL;
	}
	err = check_options(attr);
	if (err) {
		errno = err;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	origin = vb_pd_of(attr->pd);
	if (origin->origin) /* a parent domain stands for its domain */
		origin = origin->origin;
	atomic_fetch_add(&origin->parents, 1);
	pd->origin = origin;
	pd->engine = origin->engine;
	pd->handle = origin->handle;
	if (attr->td) {
		pd->td = (struct vb_td *)attr->td;
		atomic_fetch_add(&pd->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->alloc_context = attr->pd_context;
	pd->pd.context = ctx;
	pd->pd.handle = origin->pd.handle;
	return &pd->pd;
}
