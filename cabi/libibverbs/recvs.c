/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting receives: ibv_post_recv(3), ibv_post_srq_recv(3). A post calls the engine only in the
 * error state.
 */
#include "recvs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The longest message. Spec: IBTA vol. 1, 9.7.2 (C9-8). */
#define MAX_MESSAGE (UINT64_C(1) << 31)

int vb_recvs_slots(uint32_t max_wr, uint32_t max_sge, struct ibv_sge **slots, uint64_t *mask)
{
	uint64_t n = 1;

	while (n < max_wr)
		n *= 2;
	*mask = n - 1;
	*slots = calloc(n * (1 + max_sge), sizeof(**slots)); /* pages come with the posts */
	return *slots ? 0 : ENOMEM;
}

int vb_recvs_new(struct vb_recvs *recvs, const struct vb_device *device, uint32_t max_wr,
		 uint32_t max_sge)
{
	struct ibv_device_attr_ex attr;

	memset(recvs, 0, sizeof(*recvs));
	vb_lock_init(&recvs->lock);
	vb_device_attr(device, &attr);
	if (max_wr > (uint32_t)attr.orig_attr.max_qp_wr || max_sge > (uint32_t)attr.orig_attr.max_sge)
		return 0;
	recvs->max_wr = max_wr;
	recvs->max_sge = max_sge;
	return vb_recvs_slots(max_wr, max_sge, &recvs->slots, &recvs->mask);
}

void vb_recvs_free(struct vb_recvs *recvs)
{
	free(recvs->slots);
}

struct vb_recv_memory vb_recvs_memory(struct vb_recvs *recvs)
{
	return (struct vb_recv_memory){
		.ring = recvs->slots ? &recvs->ring : NULL,
		.slots = recvs->slots,
		.mask = recvs->mask,
	};
}

void vb_recvs_move(struct vb_recvs *recvs, uint32_t max_wr, struct ibv_sge *slots, uint64_t mask)
{
	free(recvs->slots);
	recvs->slots = slots;
	recvs->mask = mask;
	recvs->max_wr = max_wr;
}

/* Writes a receive at tail: 0 or an errno. */
static int put(struct vb_recvs *r, const struct ibv_recv_wr *wr, uint64_t tail)
{
	struct ibv_sge *slot = r->slots + (tail & r->mask) * (1 + r->max_sge);
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > r->max_sge || (wr->num_sge > 0 && !wr->sg_list))
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > MAX_MESSAGE)
		return EINVAL;
	if (tail - r->seen >= r->max_wr) {
		r->seen = atomic_load_explicit(&r->ring.head, memory_order_acquire);
		if (tail - r->seen >= r->max_wr)
			return ENOMEM;
	}
	slot[0] = (struct ibv_sge){ .addr = wr->wr_id,
				    .length = (uint32_t)length,
				    .lkey = (uint32_t)wr->num_sge };
	for (int i = 0; i < wr->num_sge; i++)
		slot[1 + i] = wr->sg_list[i];
	return 0;
}

int vb_recvs_post(struct vb_recvs *r, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, int *tell)
{
	uint64_t tail, before;
	int err = 0;

	*tell = 0;
	vb_lock_take(&r->lock);
	before = tail = atomic_load_explicit(&r->ring.tail, memory_order_relaxed);
	if (!r->slots ||
	    atomic_load_explicit(&r->ring.posting, memory_order_relaxed) == VB_RECV_REFUSED)
		err = EINVAL;
	for (; wr && !err; wr = wr->next) {
		err = put(r, wr, tail);
		if (err)
			break;
		tail++;
	}
	if (err)
		*bad = wr;
	if (tail != before) {
		atomic_store(&r->ring.tail, tail);
		*tell = atomic_load(&r->ring.posting) != VB_RECV_FREE;
	}
	vb_lock_leave(&r->lock);
	return err;
}
