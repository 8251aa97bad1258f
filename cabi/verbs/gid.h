/* ibv_query_gid_type, which no public header declares (gid.c). */
#ifndef VERBENA_GID_H
#define VERBENA_GID_H

#include <infiniband/verbs.h>

/* What ibv_devinfo and pyverbs take its answer for. */
enum vb_gid_type_sysfs {
	VB_GID_TYPE_SYSFS_IB_ROCE_V1,
	VB_GID_TYPE_SYSFS_ROCE_V2,
};

int private_ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned index, enum vb_gid_type_sysfs *type);

#endif
