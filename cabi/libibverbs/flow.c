/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering and its counters: ibv_create_flow(3), ibv_attach_counters_point_flow(3).
 */
#include "flow.h"
#include "pd.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct vb_flow {
	struct ibv_flow flow;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
};

/* The engine knows where the members are. */
_Static_assert(sizeof(struct ibv_flow_spec_eth) == 40, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_ipv4) == 24, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_ipv4_ext) == 32, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_ipv6) == 88, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_tcp_udp) == 16, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_action_tag) == 12, "cabi/layout");
_Static_assert(sizeof(struct ibv_flow_spec_action_drop) == 8, "cabi/layout");

struct vb_counters {
	struct ibv_counters counters;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
};

/* The specs of headers behind a struct ibv_flow_attr, and the counters. */
struct specs {
	char *bytes;
	size_t length;
	vb_handle counters[UINT8_MAX];
	uint32_t count;
};

/*
 * Takes the specs, which follow each other behind attr, each with its size. attr->size is not
 * asked. bytes has room for all.
 */
static int take_specs(const struct ibv_flow_attr *attr, const struct vb_engine *engine,
		      struct specs *to)
{
	const char *at = (const char *)(attr + 1);

	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		const struct ibv_flow_spec *spec = (const struct ibv_flow_spec *)at;

		if (spec->hdr.size < sizeof(spec->hdr.type) + sizeof(spec->hdr.size) ||
		    spec->hdr.size > sizeof(*spec))
			return EINVAL;
		if (spec->hdr.type == IBV_FLOW_SPEC_ACTION_COUNT) {
			const struct vb_counters *c = (struct vb_counters *)spec->flow_count.counters;

			if (spec->hdr.size != sizeof(spec->flow_count) || !c)
				return EINVAL;
			if (c->engine != engine)
				return EIO;
			to->counters[to->count++] = c->handle;
		} else {
			memcpy(to->bytes + to->length, at, spec->hdr.size);
			to->length += spec->hdr.size;
		}
		at += spec->hdr.size;
	}
	return 0;
}

VB_RETURNS_POINTER(struct ibv_flow *, vb_create_flow,
	(struct ibv_qp *ibqp, struct ibv_flow_attr *attr), (ibqp, attr))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct specs specs = {0};
	struct vb_flow *f;
	int err;

	err = ibqp && attr && !attr->comp_mask ? 0 : EINVAL;
	if (!err && !vb_engine_alive(qp->engine))
		err = EIO;
	if (err) {
		errno = err;
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	specs.bytes = malloc((attr->num_of_specs + 1) * sizeof(struct ibv_flow_spec));
	err = f && specs.bytes ? take_specs(attr, qp->engine, &specs) : ENOMEM;
	if (!err)
		err = qp->engine->qp_create_flow(qp->handle, attr, specs.bytes, specs.length,
						 specs.counters, specs.count, &f->handle);
	free(specs.bytes);
	if (err) {
		free(f);
		errno = err;
		return NULL;
	}
	f->engine = qp->engine;
	f->flow.context = ibqp->context;
	f->flow.handle = (uint32_t)f->handle;
	return &f->flow;
}

VB_RETURNS_ERRNO(vb_destroy_flow, (struct ibv_flow *flow), (flow))
{
	struct vb_flow *f = (struct vb_flow *)flow;
	int err;

	if (!flow)
		return EINVAL;
	if (!vb_engine_alive(f->engine))
		return EIO;
	err = f->engine->flow_destroy(f->handle);
	if (!err)
		free(f);
	return err;
}

/* -- counters: ibv_create_counters(3) --------------------------------------------- */

VB_RETURNS_POINTER(struct ibv_counters *, vb_create_counters,
	(struct ibv_context *ctx, struct ibv_counters_init_attr *attr), (ctx, attr))
{
	struct vb_counters *c;
	vb_handle handle;
	int err;

	if (!ctx || !attr || attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	err = vb_enter(ctx, &c->engine, &handle);
	if (!err)
		err = c->engine->ctx_create_counters(handle, &c->handle);
	if (err) {
		free(c);
		errno = err;
		return NULL;
	}
	c->counters.context = ctx;
	return &c->counters;
}

VB_RETURNS_ERRNO(vb_attach_counters_point_flow,
	(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow),
	(counters, attr, flow))
{
	struct vb_counters *c = (struct vb_counters *)counters;
	struct vb_flow *f = (struct vb_flow *)flow;

	if (!counters || !attr || attr->comp_mask)
		return EINVAL;
	if (!vb_engine_alive(c->engine) || (f && f->engine != c->engine))
		return EIO;
	return c->engine->counters_attach(c->handle, attr->counter_desc, attr->index,
					  f ? f->handle : 0);
}

/* Values are read anew also with IBV_READ_COUNTERS_ATTR_PREFER_CACHED. */
VB_RETURNS_ERRNO(vb_read_counters,
	(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags),
	(counters, values, n, flags))
{
	struct vb_counters *c = (struct vb_counters *)counters;

	if (!counters || !values || !n || (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED))
		return EINVAL;
	if (!vb_engine_alive(c->engine))
		return EIO;
	return c->engine->counters_read(c->handle, values, n);
}

VB_RETURNS_ERRNO(vb_destroy_counters, (struct ibv_counters *counters), (counters))
{
	struct vb_counters *c = (struct vb_counters *)counters;
	int err;

	if (!counters)
		return EINVAL;
	if (!vb_engine_alive(c->engine))
		return EIO;
	err = c->engine->counters_destroy(c->handle);
	if (!err)
		free(c);
	return err;
}
