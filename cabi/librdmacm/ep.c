/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: rdma_create_ep(3).
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

/* The time-out of each step of rdma_create_ep, as in rdma-core. */
#define RESOLVE_TIMEOUT_MS 2000

/* Stores a copy: 0 or an errno. */
static int keep(void **to, const void *from, size_t size)
{
	*to = malloc(size);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, size);
	return 0;
}

/* Prepares an endpoint that will listen. Each request gets a queue pair. */
static int passive(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct cm_id *cm_id = cm_id_of(id);
	void *copy;
	int err;

	if (rdma_bind_addr(id, res->ai_src_addr))
		return -1;
	if (pd)
		id->pd = pd;
	if (!attr)
		return 0;
	err = keep(&copy, attr, sizeof(*attr));
	if (err)
		return cm_fail(err);
	cm_id->qp_init_attr = copy;
	cm_id->qp_init_attr->qp_type = res->ai_qp_type;
	return 0;
}

/* Prepares an endpoint that will connect. */
static int active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *attr)
{
	struct cm_id *cm_id = cm_id_of(id);
	int err;

	if (rdma_resolve_addr(id, res->ai_src_len ? res->ai_src_addr : NULL, res->ai_dst_addr,
			      RESOLVE_TIMEOUT_MS))
		return -1;
	if (res->ai_route_len) {
		if (rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
				    res->ai_route_len) ||
		    cm_complete(id))
			return -1;
	} else if (rdma_resolve_route(id, RESOLVE_TIMEOUT_MS)) {
		return -1;
	}
	if (attr) {
		attr->qp_type = res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			return -1;
	}
	if (res->ai_connect_len) {
		err = keep(&cm_id->connect, res->ai_connect, res->ai_connect_len);
		if (err)
			return cm_fail(err);
		cm_id->connect_len = res->ai_connect_len;
	}
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_ep,
			   (struct rdma_cm_id * *out, struct rdma_addrinfo *res, struct ibv_pd *pd,
			    struct ibv_qp_init_attr *attr),
			   (out, res, pd, attr))
{
	struct rdma_cm_id *id;
	int ret;

	if (!out || !res)
		return cm_fail(EINVAL);
	if (cm_id_create(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type))
		return -1;
	if (res->ai_flags & RAI_PASSIVE)
		ret = passive(id, res, pd, attr);
	else
		ret = active(id, res, pd, attr);
	if (ret) {
		int err = errno;

		rdma_destroy_ep(id);
		return cm_fail(err);
	}
	*out = id;
	return 0;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_destroy_ep, (struct rdma_cm_id *id), (id))
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
