/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addrinfo(3) and rdma_query_addrinfo(3), of rdma-core 59: rdma_getaddrinfo(3) whose
 * end is an event. The names are looked up in the call, as rdma-core does.
 */
#include "cm.h"

/* Of rdma-core after 44. RAI_SA asks the administrator of an InfiniBand subnet. */
#define RAI_SA	0x10
#define RAI_DNS 0x20

/* Marks the identifier as resolving: 0, or EBUSY until the result was taken. */
static int begin(struct cm_id *id)
{
	int busy;

	pthread_mutex_lock(&cm_ids);
	busy = id->resolving;
	id->resolving = 1;
	pthread_mutex_unlock(&cm_ids);
	return busy ? EBUSY : 0;
}

static void end(struct cm_id *id)
{
	pthread_mutex_lock(&cm_ids);
	id->resolving = 0;
	pthread_mutex_unlock(&cm_ids);
}

/* Returns the result, if there is one, and lets the identifier resolve again. */
static struct rdma_addrinfo *take(struct cm_id *id)
{
	struct rdma_addrinfo *info;

	pthread_mutex_lock(&cm_ids);
	info = id->resolved;
	id->resolved = NULL;
	if (info)
		id->resolving = 0;
	pthread_mutex_unlock(&cm_ids);
	return info;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_resolve_addrinfo,
			   (struct rdma_cm_id *rdma_id, const char *node, const char *service,
			    const struct rdma_addrinfo *hints),
			   (rdma_id, node, service, hints))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct rdma_addrinfo *info;
	int err;

	if (!id)
		return cm_fail(EINVAL);
	if (hints && (hints->ai_flags & RAI_SA))
		return cm_fail(EOPNOTSUPP); /* Ethernet has no such administrator */
	err = begin(id);
	if (err)
		return cm_fail(err);
	if (rdma_getaddrinfo(node, service, hints, &info)) {
		end(id);
		return -1;
	}
	pthread_mutex_lock(&cm_ids);
	id->resolved = info;
	pthread_mutex_unlock(&cm_ids);
	err = cm_event_write(id, CM_EVENT_ADDRINFO_RESOLVED, 0, 0);
	if (err) {
		rdma_freeaddrinfo(take(id));
		return cm_fail(err);
	}
	return cm_complete(rdma_id);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_query_addrinfo,
			   (struct rdma_cm_id *rdma_id, struct rdma_addrinfo **info),
			   (rdma_id, info))
{
	struct rdma_addrinfo *resolved;

	if (!rdma_id || !info)
		return cm_fail(EINVAL);
	resolved = take(cm_id_of(rdma_id));
	if (!resolved)
		return cm_fail(ENOENT);
	*info = resolved;
	return 0;
}
