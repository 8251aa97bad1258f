/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of devices and ports: ibv_query_device(3), ibv_query_device_ex(3), ibv_query_port(3),
 * ibv_query_pkey(3), ibv_query_rt_values_ex(3). All but the last are those of internal/device, and
 * need no engine.
 */
#define _GNU_SOURCE
#include "front.h"
#include "device_limits.h"
#include "links.h"
#include "netif.h"
#include "pd.h"
#include "query.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#undef ibv_query_port

#define PORT_COUNT 1

/* PortPhysicalState of a link that is up (IBTA vol. 1, PortInfo). */
#define PHYS_LINK_UP 5

void vb_device_attr(const struct vb_device *device, struct ibv_device_attr_ex *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->orig_attr = device->kind->device;
	attr->orig_attr.node_guid = htobe64(device->guid);
	attr->orig_attr.sys_image_guid = htobe64(device->guid);
	attr->device_cap_flags_ex = device->kind->cap_flags_ex;
	attr->odp_caps = device->kind->odp_caps;
	attr->xrc_odp_caps = device->kind->xrc_odp_caps;
	attr->max_dm_size = device->kind->max_dm_size;
	attr->hca_core_clock = device->kind->hca_core_clock;
	attr->completion_timestamp_mask = device->kind->completion_timestamp_mask;
	attr->packet_pacing_caps = device->kind->packet_pacing_caps;
	attr->rss_caps = device->kind->rss_caps;
	attr->max_wq_type_rq = device->kind->max_wq_type_rq;
	attr->tm_caps = device->kind->tm_caps;
	attr->cq_mod_caps = device->kind->cq_mod_caps;
	attr->phys_port_cnt_ex = PORT_COUNT;
}

void vb_port_attr(const struct vb_device *device, struct ibv_port_attr *attr)
{
	unsigned flags, mtu;
	struct vb_link link;

	memset(attr, 0, sizeof(*attr));
	*attr = device->kind->port;
	if (device->kind->links) {
		if (!vb_link_read(device->ifindex, &link) && link.active) {
			attr->state = IBV_PORT_ACTIVE;
			attr->phys_state = PHYS_LINK_UP;
		}
		return;
	}
	if (vb_netif_state(device->netdev, &flags, &mtu))
		return;
	for (enum ibv_mtu m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if ((128u << m) + device->kind->headers <= mtu)
			attr->active_mtu = m;
	if ((flags & IFF_UP) && (flags & IFF_RUNNING)) {
		attr->state = IBV_PORT_ACTIVE;
		attr->phys_state = PHYS_LINK_UP;
	}
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_query_device,
			   (struct ibv_context *ctx, struct ibv_device_attr *attr), (ctx, attr))
{
	struct ibv_device_attr_ex ex;

	if (!attr)
		return EINVAL;
	vb_device_attr(vb_context_of(ctx)->device, &ex);
	*attr = ex.orig_attr;
	return 0;
}

/*
 * Fills a structure of size bytes. Programs linked before have a shorter one, later programs a
 * longer one, whose rest is zeroed.
 */
static VB_RETURNS_ERRNO(query_device_ex,
			(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size),
			(ctx, input, attr, size))
{
	struct ibv_device_attr_ex ex;

	if (!attr || size < sizeof(attr->orig_attr) || (input && input->comp_mask))
		return EINVAL;
	vb_device_attr(vb_context_of(ctx)->device, &ex);
	memset(attr, 0, size);
	memcpy(attr, &ex, size < sizeof(ex) ? size : sizeof(ex));
	return 0;
}

/* Fills an ibv_port_attr of size bytes, as query_device_ex does. */
static VB_RETURNS_ERRNO(query_port,
			(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr,
			 size_t size),
			(ctx, port, attr, size))
{
	struct vb_context *c = vb_context_of(ctx);
	const struct vb_engine *engine = atomic_load_explicit(&c->engine, memory_order_acquire);
	struct ibv_port_attr full;

	if (!attr || port < 1 || port > PORT_COUNT)
		return EINVAL;
	if (c->device->kind->links) {
		vb_handle handle;

		/* The port of a link whose end another process has open is down. */
		if (vb_context_handle(ctx, &handle) == 0)
			engine = atomic_load_explicit(&c->engine, memory_order_acquire);
	}
	vb_port_attr(c->device, &full);
	/* Without an engine nothing was received, so the counters of violations are 0. */
	if (engine)
		engine->ctx_violations(c->handle, &full.bad_pkey_cntr, &full.qkey_viol_cntr);
	memset(attr, 0, size);
	memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

/*
 * The exported function, which the macro of <infiniband/verbs.h> avoids. Its callers have a
 * structure that ends with flags, as before the last field of IBVERBS_1.1.
 */
VB_EXPORT VB_RETURNS_ERRNO(ibv_query_port,
	(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr), (ctx, port, attr))
{
	return query_port(ctx, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* The port's one P_Key: the default partition, full membership. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_query_pkey,
	(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey), (ctx, port, index, pkey))
{
	if (!pkey || port < 1 || port > PORT_COUNT || index < 0 ||
	    index >= vb_context_of(ctx)->device->kind->port.pkey_tbl_len) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(VB_PKEY_DEFAULT);
	return 0;
}

/* ibv_get_pkey_index(3) */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_get_pkey_index,
	(struct ibv_context *ctx, uint8_t port, __be16 pkey), (ctx, port, pkey))
{
	__be16 have;

	for (int i = 0; ibv_query_pkey(ctx, port, i, &have) == 0; i++)
		if (have == pkey)
			return i;
	return -1;
}

/* Programs read the nanoseconds whole from tv_nsec, where other providers put a clock's cycles. */
static VB_RETURNS_ERRNO(query_rt_values, (struct ibv_context *ctx, struct ibv_values_ex *values),
			(ctx, values))
{
	const struct vb_engine *engine;
	vb_handle handle;
	uint64_t ns;
	int err;

	if (!values || (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	if (!values->comp_mask)
		return 0;
	err = vb_enter(ctx, &engine, &handle);
	if (err)
		return err;
	engine->clock(&ns);
	values->raw_clock = (struct timespec){.tv_nsec = (long)ns};
	return 0;
}

void vb_fill_queries(struct vb_context *c)
{
	c->verbs.query_device_ex = query_device_ex;
	c->verbs.query_port = query_port;
	c->verbs.query_rt_values = query_rt_values;
	c->verbs.context.ops._compat_query_device = ibv_query_device;
	c->verbs.context.ops._compat_query_port = ibv_query_port;
}
