/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters as the <infiniband/verbs.h> of rdma-core 65 has them. */
#ifndef COMP_CNTR_H
#define COMP_CNTR_H

#include <infiniband/verbs.h>

struct cntr {
	struct ibv_context *context;
	uint32_t handle;
};

enum { CNTR_WRS, CNTR_BYTES };

struct cntr_init_attr {
	uint32_t comp_mask, type, flags;
};

struct cntr_caps {
	uint64_t max_value;
	uint32_t max_counters, supported_qp_attach_ops;
};

enum { CNTR_SEND = 1, CNTR_RECV = 2, CNTR_READ = 4, CNTR_REMOTE_READ = 8, CNTR_WRITE = 16, CNTR_REMOTE_WRITE = 32 };

struct cntr_attach_attr {
	uint32_t comp_mask, op_mask;
};

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct cntr_caps *caps, size_t size);
struct cntr *ibv_create_comp_cntr(struct ibv_context *context, struct cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct cntr *cntr);
int ibv_set_comp_cntr(struct cntr *cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct cntr *cntr, uint64_t value);
int ibv_inc_comp_cntr(struct cntr *cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct cntr *cntr, uint64_t amount);
int ibv_read_comp_cntr(struct cntr *cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct cntr *cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct cntr *cntr, struct cntr_attach_attr *attr);

#endif
