/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_* functions of a queue pair: ibv_wr_post(3).
 *
 * Between wr_start and wr_complete the work requests are built in memory that the queue pair got
 * when it was created, then posted as one list. A builder cannot fail: its first error is kept, and
 * wr_complete returns it. No function is NULL, because programs call them without a check.
 *
 * Deviation: an invalid request aborts the whole posting. But if the engine refuses a request,
 * because the queue is full or a key is unknown, the requests before it stay posted.
 */
#include "order.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* engine.h describes the struct ibv_send_wr of a FLUSH */
#define WITH_FLUSH (UINT64_C(1) << 11) /* IBV_QP_EX_WITH_FLUSH of rdma-core 64 */

#define ATOMIC_WRITE_BYTES 8

/* The work requests between wr_start and wr_complete. */
struct vb_batch {
	/* immutable */
	unsigned max_wr, max_sge;
	size_t max_inline;
	size_t data_size; /* per request: its elements, or one and inline data */
	uint64_t ops;
	int sends_datagrams;
	struct ibv_send_wr *wr;
	char *data; /* max_wr times data_size */
	/* held from wr_start to wr_complete or wr_abort */
	pthread_mutex_t mutex;
	/* guarded by mutex */
	unsigned n;
	int err; /* the first of this batch */
};

static struct vb_batch *batch_of(struct ibv_qp_ex *qp)
{
	return ((struct vb_qp *)qp)->batch;
}

static void fail(struct vb_batch *b, int err)
{
	if (!b->err)
		b->err = err;
}

/* -- building --------------------------------------------------------------- */

/* The request that setters change after a builder has failed. It is never read. */
static _Thread_local struct ibv_send_wr refused;

static struct ibv_send_wr *add(struct ibv_qp_ex *qp, uint64_t op, enum ibv_wr_opcode opcode)
{
	struct vb_batch *b = batch_of(qp);
	struct ibv_send_wr *wr;

	if (!(b->ops & op)) /* not one of send_ops_flags */
		fail(b, EINVAL);
	else if (b->n == b->max_wr)
		fail(b, ENOMEM);
	if (b->err)
		return &refused;
	wr = &b->wr[b->n++];
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = qp->wr_id;
	wr->send_flags = qp->wr_flags;
	wr->opcode = opcode;
	return wr;
}

/* Returns the request that the setters change, or NULL. */
static struct ibv_send_wr *last(struct vb_batch *b)
{
	if (b->err)
		return NULL;
	if (!b->n) {
		fail(b, EINVAL);
		return NULL;
	}
	return &b->wr[b->n - 1];
}

static char *data_of(struct vb_batch *b)
{
	return b->data + (b->n - 1) * b->data_size;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	add(qp, IBV_QP_EX_WITH_SEND, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	add(qp, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	add(qp, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr, (void)hdr_sz, (void)mss;
	fail(batch_of(qp), EOPNOTSUPP);
}

static struct ibv_send_wr *add_rdma(struct ibv_qp_ex *qp, uint64_t op, enum ibv_wr_opcode opcode,
				    uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = add(qp, op, opcode);

	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
	return wr;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	add_rdma(qp, IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	add_rdma(qp, IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct ibv_send_wr *wr = add_rdma(qp, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
					  IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	wr->imm_data = imm;
}

static struct ibv_send_wr *add_atomic(struct ibv_qp_ex *qp, uint64_t op, enum ibv_wr_opcode opcode,
				      uint32_t rkey, uint64_t remote_addr, uint64_t compare_add,
				      uint64_t swap)
{
	struct ibv_send_wr *wr = add(qp, op, opcode);

	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	return wr;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	add_atomic(qp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP, rkey,
		   remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				uint64_t value)
{
	add_atomic(qp, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey,
		   remote_addr, value, 0);
}

static void set_inline(struct vb_batch *b, struct ibv_send_wr *wr, size_t num,
		       const struct ibv_data_buf *bufs)
{
	struct ibv_sge *sge = (struct ibv_sge *)data_of(b);
	char *to = (char *)(sge + 1);
	size_t length = 0;

	for (size_t i = 0; i < num; i++) {
		if (bufs[i].length > b->max_inline - length) {
			fail(b, EINVAL);
			return;
		}
		if (bufs[i].length)
			memcpy(to + length, bufs[i].addr, bufs[i].length);
		length += bufs[i].length;
	}
	*sge = (struct ibv_sge){.addr = (uintptr_t)to, .length = (uint32_t)length};
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			    const void *value)
{
	struct ibv_data_buf buf = {.addr = (void *)value, .length = ATOMIC_WRITE_BYTES};
	struct ibv_send_wr *wr;

	wr = add_rdma(qp, IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);
	if (wr != &refused)
		set_inline(batch_of(qp), wr, 1, &buf);
}

static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	add_atomic(qp, WITH_FLUSH, VB_WR_FLUSH, rkey, remote_addr, len, type | (uint64_t)level << 8);
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = add(qp, IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	add(qp, IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

/* -- setting ---------------------------------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct ibv_send_wr *wr = last(batch_of(qp));

	if (!wr)
		return;
	if (!batch_of(qp)->sends_datagrams) {
		fail(batch_of(qp), EINVAL);
		return;
	}
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	struct ibv_send_wr *wr = last(batch_of(qp));

	if (wr)
		wr->qp_type.xrc.remote_srqn = remote_srqn;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num,
				    const struct ibv_data_buf *bufs)
{
	struct ibv_send_wr *wr = last(batch_of(qp));

	if (wr)
		set_inline(batch_of(qp), wr, num, bufs);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(qp, 1, &buf);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num, const struct ibv_sge *list)
{
	struct vb_batch *b = batch_of(qp);
	struct ibv_send_wr *wr = last(b);

	if (!wr)
		return;
	if (num > b->max_sge) {
		fail(b, EINVAL);
		return;
	}
	wr->sg_list = (struct ibv_sge *)data_of(b);
	wr->num_sge = (int)num;
	if (num)
		memcpy(wr->sg_list, list, num * sizeof(*list));
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(qp, 1, &sge);
}

/* -- posting ---------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *qp)
{
	struct vb_batch *b = batch_of(qp);

	pthread_mutex_lock(&b->mutex);
	b->n = 0;
	b->err = 0;
}

static VB_RETURNS_ERRNO(wr_complete, (struct ibv_qp_ex *ex), (ex))
{
	struct vb_qp *qp = (struct vb_qp *)ex;
	struct vb_batch *b = qp->batch;
	struct ibv_send_wr *bad;
	int err = b->err;

	if (!err && b->n) {
		for (unsigned i = 0; i + 1 < b->n; i++)
			b->wr[i].next = &b->wr[i + 1];
		vb_order_before(ex->qp_base.send_cq);
		err = qp->engine->qp_post_send(qp->handle, b->wr, &bad);
	}
	pthread_mutex_unlock(&b->mutex);
	return err;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	pthread_mutex_unlock(&batch_of(qp)->mutex);
}

/* -- creating --------------------------------------------------------------- */

uint64_t vb_send_ops(enum ibv_qp_type type)
{
	const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t unreliable = datagram | IBV_QP_EX_WITH_RDMA_WRITE |
				    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
				    IBV_QP_EX_WITH_BIND_MW;
	const uint64_t reliable =
		unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH;

	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return reliable;
	case IBV_QPT_UC:
		return unreliable;
	case IBV_QPT_UD:
		return datagram;
	case IBV_QPT_RAW_PACKET:
		return IBV_QP_EX_WITH_SEND;
	default:
		return 0;
	}
}

uint32_t vb_inline_for(uint64_t ops, uint32_t max_inline)
{
	if ((ops & IBV_QP_EX_WITH_ATOMIC_WRITE) && max_inline < ATOMIC_WRITE_BYTES)
		return ATOMIC_WRITE_BYTES;
	return max_inline;
}

static void set_functions(struct vb_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ibv.ex;

	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
	qp->ibv.newer.wr_flush = wr_flush;
}

int vb_batch_new(struct vb_qp *qp, const struct ibv_qp_cap *cap, uint64_t ops)
{
	size_t sges = (cap->max_send_sge ? cap->max_send_sge : 1) * sizeof(struct ibv_sge);
	size_t inlined = (sizeof(struct ibv_sge) + cap->max_inline_data + 15) & ~(size_t)15;
	struct vb_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return ENOMEM;
	b->max_wr = cap->max_send_wr;
	b->max_sge = cap->max_send_sge;
	b->max_inline = cap->max_inline_data;
	b->data_size = sges > inlined ? sges : inlined;
	b->ops = ops;
	b->sends_datagrams = qp->ibv.qp.qp_type == IBV_QPT_UD;
	b->wr = calloc(b->max_wr ? b->max_wr : 1, sizeof(*b->wr));
	b->data = calloc(b->max_wr ? b->max_wr : 1, b->data_size);
	if (!b->wr || !b->data) {
		free(b->wr);
		free(b->data);
		free(b);
		return ENOMEM;
	}
	pthread_mutex_init(&b->mutex, NULL);
	qp->batch = b;
	set_functions(qp);
	return 0;
}

void vb_batch_free(struct vb_batch *b)
{
	if (!b)
		return;
	pthread_mutex_destroy(&b->mutex);
	free(b->data);
	free(b->wr);
	free(b);
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp))
{
	if (!qp || !vb_qp_of(qp)->batch) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return &vb_qp_of(qp)->ibv.ex;
}
