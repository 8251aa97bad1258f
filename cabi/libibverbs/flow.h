/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering.
 */
#ifndef VERBENA_FLOW_H
#define VERBENA_FLOW_H

#include "front.h"

struct ibv_flow *vb_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int vb_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *vb_create_counters(struct ibv_context *ctx,
					struct ibv_counters_init_attr *attr);
int vb_attach_counters_point_flow(struct ibv_counters *counters,
				  struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int vb_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags);
int vb_destroy_counters(struct ibv_counters *counters);

#endif
