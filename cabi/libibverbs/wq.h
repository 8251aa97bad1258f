/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queues and indirection tables.
 */
#ifndef VERBENA_WQ_H
#define VERBENA_WQ_H

#include "recvs.h"

struct vb_rwq_table {
	struct ibv_rwq_ind_table table;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
};

struct ibv_wq *vb_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr);
int vb_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int vb_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *vb_create_rwq_ind_table(struct ibv_context *ctx,
						  struct ibv_rwq_ind_table_init_attr *attr);
int vb_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

#endif
