/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs.
 */
#ifndef VERBENA_QP_H
#define VERBENA_QP_H

#include "cookie.h"
#include "cq.h"
#include "recvs.h"

struct vb_batch;

/*
 * ibv_qp_ex grows at its end: programs of rdma-core 64 read wr_flush behind wr_atomic_write, also
 * if this library is built with other headers.
 */
struct vb_qp_ex_newer {
	struct ibv_qp_ex ex;
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
	void *spare[8];
};

struct vb_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		struct vb_qp_ex_newer newer;
	} ibv;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;
	struct vb_batch *batch; /* state of the ibv_wr_* functions (qp_ex.c), or NULL */
	struct vb_source source;
	struct vb_recvs recvs;
};

static inline struct vb_qp *vb_qp_of(struct ibv_qp *qp)
{
	return (struct vb_qp *)qp;
}

struct ibv_qp *vb_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int vb_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
struct ibv_qp *vb_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);

int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* -- the ibv_wr_* functions (qp_ex.c) -------------------------------------------- */

/* Returns the operations that a queue pair type has, of enum ibv_qp_create_send_ops_flags. */
uint64_t vb_send_ops(enum ibv_qp_type type);
/* Returns max_inline, or more if the operations need more inline data. */
uint32_t vb_inline_for(uint64_t ops, uint32_t max_inline);
/* Gives a queue pair with caps the functions and room for a batch: 0 or ENOMEM. */
int vb_batch_new(struct vb_qp *qp, const struct ibv_qp_cap *cap, uint64_t ops);
void vb_batch_free(struct vb_batch *batch);

#endif
