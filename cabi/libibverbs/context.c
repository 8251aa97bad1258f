/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts: ibv_open_device(3). The first object of a context opens the engine's handle of it. */
#define _GNU_SOURCE
#include "front.h"
#include "fork.h"
#include "pd.h"
#include "query.h"
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Completions interrupt no processor, so one vector does as well as many. */
#define COMPLETION_VECTORS 1

VB_EXPORT VB_RETURNS_POINTER(struct ibv_context *, ibv_open_device, (struct ibv_device *ibv), (ibv))
{
	struct vb_device *device = vb_device_of(ibv);
	struct vb_context *c;
	struct ibv_context *ctx;
	int async[2] = { -1, -1 }, err;

	if (!ibv) {
		errno = EINVAL;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	ctx = &c->verbs.context;
	c->device = device;
	if (pipe2(async, O_CLOEXEC))
		goto fail;
	err = vb_share_open(c);
	if (err) {
		errno = err;
		goto fail;
	}
	c->async_write_fd = async[1];
	ctx->async_fd = async[0];
	ctx->device = ibv;
	ctx->num_comp_vectors = COMPLETION_VECTORS;
	ctx->abi_compat = (void *)UINTPTR_MAX; /* a verbs_context contains it */
	pthread_mutex_init(&ctx->mutex, NULL);
	/*
	 * rdma-core grows this structure at its low end. One that ends where that of 44 does is valid
	 * for later programs too.
	 */
	c->verbs.sz = sizeof(c->verbs);
	vb_fill_queries(c);
	vb_fill_ops(c);
	vb_device_get(device);
	return ctx;
fail:
	if (async[0] >= 0) {
		err = errno;
		close(async[0]);
		close(async[1]);
		errno = err;
	}
	free(c);
	return NULL;
}

/*
 * Objects that still exist are an error of the application, which the man page leaves undefined.
 * The engine closes its side of them.
 */
VB_EXPORT VB_RETURNS_ERRNO(ibv_close_device, (struct ibv_context *ctx), (ctx))
{
	struct vb_context *c = vb_context_of(ctx);
	const struct vb_engine *engine = atomic_load(&c->engine);

	if (engine)
		engine->ctx_close(c->handle);
	close(ctx->async_fd);
	close(c->async_write_fd);
	vb_share_close(c);
	vb_pd_free_left(c);
	pthread_mutex_destroy(&ctx->mutex);
	vb_device_put(c->device);
	free(c);
	return 0;
}

/*
 * Gives the context of a child a pipe of its own, under the number that the application has. The
 * old pipe is the parent's too: each process would take events of the other.
 */
static int renew_pipe(struct vb_context *c)
{
	int flags = fcntl(c->verbs.context.async_fd, F_GETFL), async[2];

	if (flags < 0 || pipe2(async, O_CLOEXEC))
		return errno;
	if (fcntl(async[0], F_SETFL, flags & O_NONBLOCK) ||
	    dup3(async[0], c->verbs.context.async_fd, O_CLOEXEC) < 0 ||
	    dup3(async[1], c->async_write_fd, O_CLOEXEC) < 0) {
		int err = errno;

		close(async[0]);
		close(async[1]);
		return err;
	}
	close(async[0]);
	close(async[1]);
	return 0;
}

int vb_context_handle(struct ibv_context *ctx, vb_handle *handle)
{
	struct vb_context *c = vb_context_of(ctx);
	const struct vb_engine *engine = vb_engine_get(), *had;
	int err = 0;

	if (!engine)
		return errno;
	if (atomic_load_explicit(&c->engine, memory_order_acquire) == engine) {
		*handle = c->handle;
		return 0;
	}
	vb_engine_lock();
	had = atomic_load_explicit(&c->engine, memory_order_relaxed);
	if (had != engine) {
		if (had)
			err = renew_pipe(c);
		if (!err)
			err = engine->ctx_open(c->device->ibv.name, c->async_write_fd, &c->handle);
		if (!err)
			atomic_store_explicit(&c->engine, engine, memory_order_release);
	}
	if (!err)
		*handle = c->handle;
	vb_engine_unlock();
	return err;
}
