/*
 * Functions of rdma-core after 44, so that programs that were linked to a newer
 * one load: rdma_resolve_addrinfo(3), which asks an InfiniBand subnet's services
 * or a resolver in the background, and rdma_write_cm_event(3). None is served.
 */
#include "cm.h"

VB_EXPORT VB_RETURNS_COUNT(int, rdma_query_addrinfo, (struct rdma_cm_id *id, struct rdma_addrinfo **info), (id, info))
{
	(void)id;
	(void)info;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_resolve_addrinfo,
	(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints),
	(id, node, service, hints))
{
	(void)id;
	(void)node;
	(void)service;
	(void)hints;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_write_cm_event,
	(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg), (id, event, status, arg))
{
	(void)id;
	(void)event;
	(void)status;
	(void)arg;
	return cm_fail(EOPNOTSUPP);
}
