/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: rdma_join_multicast(3).
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

static void link_group(struct cm_id *id, struct cm_group *group)
{
	pthread_mutex_lock(&cm_ids);
	group->next = id->groups;
	id->groups = group;
	pthread_mutex_unlock(&cm_ids);
}

static void unlink_group(struct cm_id *id, struct cm_group *group)
{
	struct cm_group **at = &id->groups;

	pthread_mutex_lock(&cm_ids);
	while (*at != group)
		at = &(*at)->next;
	*at = group->next;
	pthread_mutex_unlock(&cm_ids);
}

static int join(struct rdma_cm_id *rdma_id, const struct sockaddr *addr, uint64_t flags,
		void *context)
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct cm_group *group = calloc(1, sizeof(*group));
	int err;

	if (!group)
		return -1;
	group->cookie = cm_cookie();
	group->context = context;
	group->join_flags = flags;
	memcpy(&group->addr, addr, cm_addrlen(addr));
	link_group(id, group);
	err = id->engine->cm_join(id->handle, addr, flags, group->cookie);
	if (err) {
		unlink_group(id, group);
		free(group);
		return cm_fail(err);
	}
	return cm_complete(rdma_id);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_join_multicast_ex,
			   (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			    void *context),
			   (id, attr, context))
{
	if (!id || !attr)
		return cm_fail(EINVAL);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return cm_fail(ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED || !cm_addrlen(attr->addr))
		return cm_fail(EINVAL);
	return join(id, attr->addr, attr->join_flags, context);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_join_multicast,
	(struct rdma_cm_id *id, struct sockaddr *addr, void *context), (id, addr, context))
{
	if (!id || !cm_addrlen(addr))
		return cm_fail(EINVAL);
	return join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int cm_group_joined(struct cm_id *id, struct cm_group *group, const union ibv_gid *mgid)
{
	int err;

	/* A member that only sends need not receive. */
	if (!id->id.qp || group->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return 0;
	err = ibv_attach_mcast(id->id.qp, mgid, 0);
	if (!err) {
		pthread_mutex_lock(&cm_ids);
		group->mgid = *mgid;
		group->attached = 1;
		pthread_mutex_unlock(&cm_ids);
	}
	return err;
}

/* -- leaving -------------------------------------------------------------------------------- */

static enum cm_verdict drops(const struct vb_cm_event *event, const void *arg)
{
	const struct cm_group *group = arg;

	if (event->type != RDMA_CM_EVENT_MULTICAST_JOIN && event->type != RDMA_CM_EVENT_MULTICAST_ERROR)
		return CM_STAYS;
	return event->context == group->cookie ? CM_DROPPED : CM_STAYS;
}

/* Finds a join by its address and removes it from the list: its events find none from now on. */
static struct cm_group *take_group(struct cm_id *id, const struct sockaddr *addr)
{
	struct cm_group **at, *group;

	pthread_mutex_lock(&cm_ids);
	for (at = &id->groups; *at && memcmp(&(*at)->addr, addr, cm_addrlen(addr)) != 0;)
		at = &(*at)->next;
	group = *at;
	if (group)
		*at = group->next;
	pthread_mutex_unlock(&cm_ids);
	return group;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_leave_multicast,
	(struct rdma_cm_id *rdma_id, struct sockaddr *addr), (rdma_id, addr))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct cm_channel *channel;
	struct cm_group *group;
	int err;

	if (!id || !cm_addrlen(addr))
		return cm_fail(EINVAL);
	group = take_group(id, addr);
	if (!group)
		return cm_fail(EADDRNOTAVAIL);
	if (id->id.qp && group->attached)
		ibv_detach_mcast(id->id.qp, &group->mgid, 0);
	err = id->engine->cm_leave(id->handle, addr);
	channel = cm_channel_of(id->id.channel);
	pthread_mutex_lock(&channel->mu);
	cm_channel_sift(channel, NULL, drops, group);
	pthread_mutex_unlock(&channel->mu);
	/* Waits for events taken from the channel: they point at the join. */
	pthread_mutex_lock(&cm_ids);
	while (group->events_acked != group->events_reported)
		pthread_cond_wait(&cm_acked, &cm_ids);
	pthread_mutex_unlock(&cm_ids);
	free(group);
	return cm_result(err);
}
