/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters, of rdma-core 65: ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3),
 * ibv_query_comp_cntr_caps(3).
 */
#include "device_limits.h"
#include "pd.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Laid out as in the <infiniband/verbs.h> of rdma-core 65, up to what is ours. */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
	/* immutable, ours */
	const struct vb_engine *engine;
	vb_handle cntr;
};

/* Likewise. */
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask;
	uint32_t type;
	uint32_t flags;
};

struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops;
};

struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask;
	uint32_t op_mask;
};

/* Fills a structure of size bytes. Later programs have a longer one, whose rest is zeroed. */
VB_EXPORT VB_RETURNS_ERRNO(_ibv_query_comp_cntr_caps,
	(struct ibv_context *ctx, struct ibv_comp_cntr_caps *caps, size_t size), (ctx, caps, size))
{
	const struct ibv_comp_cntr_caps all = {
		.max_value = UINT64_MAX,
		.max_counters = VB_COMP_CNTRS,
		.supported_qp_attach_ops = VB_COMP_CNTR_OPS,
	};

	if (!ctx || !caps)
		return EINVAL;
	memset(caps, 0, size);
	memcpy(caps, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_comp_cntr *, ibv_create_comp_cntr,
	(struct ibv_context *ctx, struct ibv_comp_cntr_init_attr *attr), (ctx, attr))
{
	struct ibv_comp_cntr *c;
	vb_handle handle;
	int err;

	if (!ctx || !attr) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask || attr->flags) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	err = vb_enter(ctx, &c->engine, &handle);
	if (!err)
		err = c->engine->cntr_create(handle, attr->type, &c->cntr);
	if (err) {
		free(c);
		errno = err;
		return NULL;
	}
	c->context = ctx;
	c->handle = (uint32_t)c->cntr;
	return c;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_comp_cntr, (struct ibv_comp_cntr *c), (c))
{
	int err = c ? c->engine->cntr_destroy(c->cntr) : EINVAL;

	if (!err)
		free(c);
	return err;
}

enum { SUCCESSES, ERRORS };

VB_EXPORT VB_RETURNS_ERRNO(ibv_read_comp_cntr, (struct ibv_comp_cntr *c, uint64_t *value),
			   (c, value))
{
	return c && value ? c->engine->cntr_read(c->cntr, SUCCESSES, value) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_read_err_comp_cntr, (struct ibv_comp_cntr *c, uint64_t *value),
			   (c, value))
{
	return c && value ? c->engine->cntr_read(c->cntr, ERRORS, value) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_set_comp_cntr, (struct ibv_comp_cntr *c, uint64_t value),
			   (c, value))
{
	return c ? c->engine->cntr_set(c->cntr, SUCCESSES, value) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_set_err_comp_cntr, (struct ibv_comp_cntr *c, uint64_t value),
			   (c, value))
{
	return c ? c->engine->cntr_set(c->cntr, ERRORS, value) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_inc_comp_cntr, (struct ibv_comp_cntr *c, uint64_t amount),
			   (c, amount))
{
	return c ? c->engine->cntr_inc(c->cntr, SUCCESSES, amount) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_inc_err_comp_cntr, (struct ibv_comp_cntr *c, uint64_t amount),
			   (c, amount))
{
	return c ? c->engine->cntr_inc(c->cntr, ERRORS, amount) : EINVAL;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_qp_attach_comp_cntr,
	(struct ibv_qp *ibqp, struct ibv_comp_cntr *c, struct ibv_qp_attach_comp_cntr_attr *attr),
	(ibqp, c, attr))
{
	struct vb_qp *qp = vb_qp_of(ibqp);

	if (!ibqp || !c || !attr || attr->comp_mask || c->context != ibqp->context)
		return EINVAL;
	if (c->engine != qp->engine)
		return EIO;
	return qp->engine->qp_attach_cntr(qp->handle, c->cntr, attr->op_mask);
}
