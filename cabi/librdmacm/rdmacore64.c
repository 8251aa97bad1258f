/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of rdma-core after 44, so that programs linked with a newer one load:
 * rdma_resolve_addrinfo(3), which asks the services of an InfiniBand subnet or a resolver in the
 * background, rdma_write_cm_event(3), and epoll(7) of rsockets. All of them fail.
 */
#include "cm.h"

#include <sys/epoll.h>

VB_EXPORT VB_RETURNS_COUNT(int, rdma_query_addrinfo,
			   (struct rdma_cm_id *id, struct rdma_addrinfo **info), (id, info))
{
	(void)id;
	(void)info;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_resolve_addrinfo,
			   (struct rdma_cm_id *id, const char *node, const char *service,
			    const struct rdma_addrinfo *hints),
			   (id, node, service, hints))
{
	(void)id;
	(void)node;
	(void)service;
	(void)hints;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_write_cm_event,
			   (struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			    uint64_t arg),
			   (id, event, status, arg))
{
	(void)id;
	(void)event;
	(void)status;
	(void)arg;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, repoll_create, (int flags), (flags))
{
	(void)flags;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, repoll_ctl,
	(int epfd, int op, int fd, struct epoll_event *event), (epfd, op, fd, event))
{
	(void)epfd;
	(void)op;
	(void)fd;
	(void)event;
	return cm_fail(EOPNOTSUPP);
}

VB_EXPORT VB_RETURNS_COUNT(int, repoll_wait,
			   (int epfd, struct epoll_event *events, int max, int timeout_ms),
			   (epfd, events, max, timeout_ms))
{
	(void)epfd;
	(void)events;
	(void)max;
	(void)timeout_ms;
	return cm_fail(EOPNOTSUPP);
}
