/* SPDX-License-Identifier: BSD-2-Clause */
/* DMA handles (dmah.c). */
#ifndef VERBENA_DMAH_H
#define VERBENA_DMAH_H

#include <infiniband/verbs.h>

/* Laid out as in the <infiniband/verbs.h> of rdma-core 65. */
struct ibv_dmah {
	struct ibv_context *context;
};

#endif
