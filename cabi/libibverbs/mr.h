/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VERBENA_MR_H
#define VERBENA_MR_H

#include <infiniband/verbs.h>

struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *pd);
struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access);

/* ibv_advise_mr(3) */
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sg_list, uint32_t num_sge);

#endif
