/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receives of a queue pair or a shared receive queue: a ring of the front that the engine
 * reads. See engine.h.
 */
#ifndef VERBENA_RECVS_H
#define VERBENA_RECVS_H

#include "front.h"
#include "lock.h"

struct vb_recvs {
	struct vb_recv_ring ring;
	/* guarded by lock */
	struct vb_lock lock;
	struct ibv_sge *slots; /* NULL for a queue without receives */
	uint64_t mask;
	uint64_t seen; /* copy of head, read anew when it shows a full ring */
	uint32_t max_wr, max_sge;
};

/*
 * Allocates max_wr receives: 0 or ENOMEM. Above the limits of the device it allocates none, and the
 * engine refuses.
 */
int vb_recvs_new(struct vb_recvs *recvs, const struct vb_device *device, uint32_t max_wr,
		 uint32_t max_sge);
void vb_recvs_free(struct vb_recvs *recvs);

/* Describes them to the engine. */
struct vb_recv_memory vb_recvs_memory(struct vb_recvs *recvs);

/*
 * Allocates slots for max_wr receives, which vb_recvs_move then installs: 0 or ENOMEM. The caller
 * holds the lock from before the engine moves the receives.
 */
int vb_recvs_slots(uint32_t max_wr, uint32_t max_sge, struct ibv_sge **slots, uint64_t *mask);
void vb_recvs_move(struct vb_recvs *recvs, uint32_t max_wr, struct ibv_sge *slots, uint64_t mask);

/*
 * Posts a list. Returns 0, or an errno and in *bad the first refused one. *tell says whether to
 * call the engine.
 */
int vb_recvs_post(struct vb_recvs *recvs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
		  int *tell);

#endif
