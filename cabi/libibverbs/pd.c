/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: ibv_alloc_pd(3), ibv_import_pd(3).
 */
#include "pd.h"
#include "share.h"

#include <errno.h>
#include <pthread.h>
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

static struct vb_pd *new_pd(struct ibv_context *ctx)
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
	return pd;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *ctx), (ctx))
{
	const struct vb_share domain = {0};
	struct vb_pd *pd = new_pd(ctx);

	if (!pd)
		return NULL;
	pd->pd.handle = vb_share_add(ctx, VB_SHARE_PD, &domain);
	return &pd->pd;
}

/* The domain of this process for that of the handle: it has the regions that are imported to it. */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_pd *, ibv_import_pd,
	(struct ibv_context *ctx, uint32_t handle), (ctx, handle))
{
	struct vb_share domain;
	struct vb_pd *pd;
	int err = ctx ? vb_share_find(ctx, handle, VB_SHARE_PD, &domain) : EINVAL;

	if (err) {
		errno = err;
		return NULL;
	}
	pd = new_pd(ctx);
	if (!pd)
		return NULL;
	pd->imported = 1;
	pd->pd.handle = handle;
	return &pd->pd;
}

/* Ends a domain in this process, unless it is in use: 0 or an errno. */
static int end(struct vb_pd *pd)
{
	int err;

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
	return 0;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_dealloc_pd, (struct ibv_pd *ibpd), (ibpd))
{
	struct vb_pd *pd;
	int err;

	if (!ibpd)
		return EINVAL;
	pd = vb_pd_of(ibpd);
	err = end(pd);
	if (err)
		return err;
	if (!pd->origin && !pd->imported)
		vb_share_remove(ibpd->context, ibpd->handle);
	free(pd);
	return 0;
}

/* The handle stays valid. A domain in use is left to its users until the context is closed. */
VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_pd, (struct ibv_pd *ibpd), (ibpd))
{
	struct vb_pd *pd;
	struct vb_context *c;

	if (!ibpd)
		return;
	pd = vb_pd_of(ibpd);
	if (!end(pd)) {
		free(pd);
		return;
	}
	c = vb_context_of(ibpd->context);
	pthread_mutex_lock(&c->verbs.context.mutex);
	pd->next = c->left;
	c->left = pd;
	pthread_mutex_unlock(&c->verbs.context.mutex);
}

void vb_pd_free_left(struct vb_context *c)
{
	struct vb_pd *pd;

	while ((pd = c->left)) {
		c->left = pd->next;
		free(pd);
	}
}
