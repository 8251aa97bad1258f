/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows.
 */
#ifndef VERBENA_MW_H
#define VERBENA_MW_H

#include "front.h"

struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_dealloc_mw(struct ibv_mw *mw);
/* Binds windows of type 1. A work request binds those of type 2. */
int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

#endif
