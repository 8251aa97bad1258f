/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GID tables (gidtable.c), and ibv_query_gid_type, which no public header
 * declares (gid.c).
 */
#ifndef VERBENA_GID_H
#define VERBENA_GID_H

#include <infiniband/verbs.h>

/* The answers that ibv_devinfo and pyverbs know. */
enum vb_gid_type_sysfs {
	VB_GID_TYPE_SYSFS_IB_ROCE_V1,
	VB_GID_TYPE_SYSFS_ROCE_V2,
};

/*
 * Reads the GID table of an interface: up to max entries, free ones zeroed. Returns the number of
 * the last entry in use plus one, or a negative errno.
 */
int vb_gid_addrs(const char *netdev, union ibv_gid *gids, int max);

static inline int vb_gid_is_free(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

int private_ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned index,
			       enum vb_gid_type_sysfs *type);

#endif
