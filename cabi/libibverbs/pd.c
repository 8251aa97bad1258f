/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: ibv_alloc_pd(3).
 */
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

int vb_enter(struct ibv_context *ctx, const struct vb_engine **engine, vb_handle *handle)
{
	if (!ctx)
		return EINVAL;
	*engine = vb_engine_get();
	if (!*engine)
		return errno;
	return vb_context_handle(ctx, handle);
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *ctx), (ctx))
{
	const struct vb_engine *engine;
	struct vb_pd *pd;
	vb_handle handle;
	int err;

	err = vb_enter(ctx, &engine, &handle);
	if (err) {
		errno = err;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	err = engine->pd_alloc(handle, &pd->handle);
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->engine = engine;
	pd->pd.context = ctx;
	pd->pd.handle = (uint32_t)pd->handle;
	return &pd->pd;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_dealloc_pd, (struct ibv_pd *ibpd), (ibpd))
{
	struct vb_pd *pd;
	int err;

	if (!ibpd)
		return EINVAL;
	pd = vb_pd_of(ibpd);
	if (atomic_load(&pd->parents))
		return EBUSY;
	if (pd->origin) {
		atomic_fetch_sub(&pd->origin->parents, 1);
		if (pd->td)
			atomic_fetch_sub(&pd->td->users, 1);
	} else {
		err = pd->engine->pd_free(pd->handle);
		if (err)
			return err;
	}
	free(pd);
	return 0;
}
