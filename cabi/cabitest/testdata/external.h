/* SPDX-License-Identifier: BSD-2-Clause */
/* An end of a connection whose queue pair the application makes and modifies by itself. */
#include "cm.h"

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[8];
};

static inline void make_side(struct side *side, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	side->pd = ibv_alloc_pd(id->verbs);
	side->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(side->pd && side->cq);
	attr.send_cq = attr.recv_cq = side->cq;
	side->qp = ibv_create_qp(side->pd, &attr);
	side->mr = ibv_reg_mr(side->pd, side->buf, sizeof(side->buf), IBV_ACCESS_LOCAL_WRITE);
	CHECK(side->qp && side->mr);
}

static inline void free_side(struct side *side)
{
	CHECK(ibv_destroy_qp(side->qp) == 0);
	CHECK(ibv_dereg_mr(side->mr) == 0);
	CHECK(ibv_destroy_cq(side->cq) == 0);
	CHECK(ibv_dealloc_pd(side->pd) == 0);
}

static inline struct ibv_sge all_of(struct side *side)
{
	return (struct ibv_sge){ .addr = (uintptr_t)side->buf,
				 .length = sizeof(side->buf),
				 .lkey = side->mr->lkey };
}

static inline void post_side_recv(struct side *side)
{
	struct ibv_sge sge = all_of(side);
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(side->qp, &recv, &bad) == 0);
}

static inline void poll_one(struct side *side)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(side->cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/* Sends the buffer of one side to the posted receive of the other. */
static inline void exchange(struct side *from, struct side *to)
{
	struct ibv_sge sge = all_of(from);
	struct ibv_send_wr send = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *bad;

	CHECK(ibv_post_send(from->qp, &send, &bad) == 0);
	poll_one(from);
	poll_one(to);
	CHECK(memcmp(to->buf, from->buf, sizeof(to->buf)) == 0);
}

static inline void free_ids(struct rdma_event_channel *channel, struct rdma_cm_id *a,
			    struct rdma_cm_id *b, struct rdma_cm_id *c)
{
	CHECK(rdma_destroy_id(a) == 0 && rdma_destroy_id(b) == 0 && rdma_destroy_id(c) == 0);
	rdma_destroy_event_channel(channel);
}
