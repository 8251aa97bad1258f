/* SPDX-License-Identifier: BSD-2-Clause */
/* From rdma-core 65's <infiniband/verbs.h> and <rdma/rdma_cma.h>, for programs built with 44's. */
#ifndef NEWER_H
#define NEWER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

struct dmah;
struct dmah_attr {
	uint32_t comp_mask, cpu_id;
	uint8_t ph, tph_mem_type;
};
enum { DMAH_CPU_ID = 1, DMAH_PH = 2, DMAH_TPH_MEM_TYPE = 4 };

struct dmah *ibv_alloc_dmah(struct ibv_context *ctx, struct dmah_attr *attr);
int ibv_dealloc_dmah(struct dmah *dmah);
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed);

#define RDMA_CM_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_CM_EVENT_USER		((enum rdma_cm_event_type)18)
#define RAI_SA				0x10
#define RAI_DNS				0x20

/* param.arg of an event. */
static inline uint64_t event_arg(const struct rdma_cm_event *event)
{
	return *(const uint64_t *)(const void *)&event->param;
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

#endif
