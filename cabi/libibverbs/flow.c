/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering: ibv_create_flow(3).
 */
#include "flow.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>

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

/* The specs follow each other behind attr, each with its size. attr->size is not asked. */
static int specs_length(const struct ibv_flow_attr *attr, size_t *length)
{
	const char *at = (const char *)(attr + 1);

	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		const struct ibv_flow_spec *spec = (const struct ibv_flow_spec *)at;

		if (spec->hdr.size < sizeof(spec->hdr.type) + sizeof(spec->hdr.size) ||
		    spec->hdr.size > sizeof(*spec))
			return EINVAL;
		at += spec->hdr.size;
	}
	*length = (size_t)(at - (const char *)(attr + 1));
	return 0;
}

VB_RETURNS_POINTER(struct ibv_flow *, vb_create_flow,
	(struct ibv_qp *ibqp, struct ibv_flow_attr *attr), (ibqp, attr))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_flow *f;
	size_t length;
	int err;

	err = ibqp && attr && !attr->comp_mask ? specs_length(attr, &length) : EINVAL;
	if (!err && !vb_engine_alive(qp->engine))
		err = EIO;
	if (err) {
		errno = err;
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	err = qp->engine->qp_create_flow(qp->handle, attr, attr + 1, length, &f->handle);
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
