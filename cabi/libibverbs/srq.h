/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues.
 */
#ifndef VERBENA_SRQ_H
#define VERBENA_SRQ_H

#include "cookie.h"
#include "recvs.h"

struct vb_srq {
	struct ibv_srq srq;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
	enum ibv_srq_type type;
	uint32_t srq_num;
	struct vb_source source;
	struct vb_recvs recvs;
};

/*
 * Represents the posts to all shared receive queues in vb_order_before: a completion does not name
 * the queue of its receive.
 */
extern char vb_srq_posts;

static inline struct vb_srq *vb_srq_of(struct ibv_srq *srq)
{
	return (struct vb_srq *)srq;
}

struct ibv_srq *vb_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int vb_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
int vb_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
int vb_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
