/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering.
 */
#ifndef VERBENA_FLOW_H
#define VERBENA_FLOW_H

#include "front.h"

struct ibv_flow *vb_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int vb_destroy_flow(struct ibv_flow *flow);

#endif
