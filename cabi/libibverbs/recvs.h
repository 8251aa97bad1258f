/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receives of a queue pair or a shared receive queue: a ring of ours that
 * the engine takes from. See engine.h.
 */
#ifndef VERBENA_RECVS_H
#define VERBENA_RECVS_H

#include "front.h"
#include "lock.h"

struct vb_recvs {
	struct vb_recv_ring ring;
	/* guarded by lock */
	struct vb_lock lock;
	struct ibv_sge *slots; /* NULL where there are no receives */
	uint64_t mask;
	uint64_t seen; /* of head, which is looked at where this says full */
	uint32_t max_wr, max_sge;
};

/*
 * Makes room for max_wr receives: 0 or ENOMEM. What the device cannot have gets
 * none, and is the engine's to refuse.
 */
int vb_recvs_new(struct vb_recvs *recvs, const struct vb_device *device, uint32_t max_wr, uint32_t max_sge);
void vb_recvs_free(struct vb_recvs *recvs);

/* What the engine is to know of them. */
struct vb_recv_memory vb_recvs_memory(struct vb_recvs *recvs);

/*
 * Slots for max_wr receives, which vb_recvs_move makes those of recvs: 0 or
 * ENOMEM. The lock is held from before the engine moves what is in the old ones.
 */
int vb_recvs_slots(uint32_t max_wr, uint32_t max_sge, struct ibv_sge **slots, uint64_t *mask);
void vb_recvs_move(struct vb_recvs *recvs, uint32_t max_wr, struct ibv_sge *slots, uint64_t mask);

/*
 * Posts a list: 0, or an errno and *bad, which is the first that was refused.
 * *tell is whether the engine is to be told.
 */
int vb_recvs_post(struct vb_recvs *recvs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, int *tell);

#endif
