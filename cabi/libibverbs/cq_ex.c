/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues: ibv_create_cq_ex(3).
 *
 * start_poll takes the poll lock and end_poll releases it. The current completion is copied out of
 * the ring, so that its slot is free at once. Its fields are converted when they are read.
 *
 * A queue of completion timestamps has the time at which the engine pushed each completion.
 */
#include "cq.h"
#include "pd.h"
#include "wc.h"

#include <errno.h>

/* -- polling ---------------------------------------------------------------- */

/* Makes the next completion the current one, if there is one. */
static int advance(struct vb_cq *cq)
{
	struct vb_cq_ring *ring = &cq->ring;
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
		return ENOENT;
	cq->at = ring->slots[head & ring->mask];
	if (cq->timed)
		cq->at_time = ((struct vb_wc_time *)(ring->slots + ring->mask + 1))[head & ring->mask];
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
	cq->ibv.ex.wr_id = cq->at.wr_id;
	cq->ibv.ex.status = (enum ibv_wc_status)cq->at.status;
	vb_cq_found(cq);
	return 0;
}

/* Keeps the lock if it finds a completion. */
static int start(struct vb_cq *cq)
{
	if (vb_cq_is_empty(cq))
		return ENOENT;
	vb_lock_take(&cq->lock);
	if (!advance(cq)) {
		atomic_store_explicit(&cq->empty, 0, memory_order_relaxed);
		return 0;
	}
	vb_lock_leave(&cq->lock);
	return ENOENT;
}

static VB_RETURNS_ERRNO(start_poll, (struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr),
			(ibcq, attr))
{
	struct vb_cq *cq = (struct vb_cq *)ibcq;
	int err;

	if (attr && attr->comp_mask)
		return EINVAL;
	if (!vb_engine_alive(cq->engine))
		return EIO;
	err = start(cq);
	if (err && vb_cq_idle(cq, 1))
		err = start(cq);
	if (err && atomic_load_explicit(&cq->ring.overrun, memory_order_relaxed))
		return ENOMEM;
	return err;
}

static VB_RETURNS_ERRNO(next_poll, (struct ibv_cq_ex *ibcq), (ibcq))
{
	return advance((struct vb_cq *)ibcq);
}

static void end_poll(struct ibv_cq_ex *ibcq)
{
	vb_lock_leave(&((struct vb_cq *)ibcq)->lock);
}

/* -- fields ----------------------------------------------------------------- */

static const struct vb_wc *at(const struct ibv_cq_ex *cq)
{
	return &((const struct vb_cq *)cq)->at;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return (enum ibv_wc_opcode)at(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return at(cq)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return at(cq)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return vb_wc_imm(at(cq));
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return at(cq)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return at(cq)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return at(cq)->flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return at(cq)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return at(cq)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return ((const struct vb_cq *)cq)->at_time.device;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return ((const struct vb_cq *)cq)->at_time.wallclock;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	vb_wc_tag(at(cq), info);
}

static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	return at(cq)->opcode == IBV_WC_RECV ? at(cq)->tag_high : 0;
}

/* A field that no queue can be created with. To read it is harmless. */
static uint16_t read_cvlan(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}


/* -- creating --------------------------------------------------------------- */

/* Refuses unsupported attributes: 0 or an errno. */
static int check(struct ibv_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return EINVAL;
	if (attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO |
					 IBV_WC_EX_WITH_FLOW_TAG | VB_WC_TIMES))
		return EOPNOTSUPP;
	/*
	 * IGNORE_OVERRUN is refused: a ring that wraps over completions that were not polled cannot be
	 * read.
	 */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return EOPNOTSUPP;
	/* The attribute must be a parent domain, not a plain one. */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || attr->parent_domain->context != ctx ||
	     !vb_pd_of(attr->parent_domain)->origin))
		return EINVAL;
	return 0;
}

VB_RETURNS_POINTER(struct ibv_cq_ex *, vb_create_cq_ex,
	(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr), (ctx, attr))
{
	struct ibv_cq_ex *ex;
	struct vb_cq *cq;
	int err;

	err = attr ? check(ctx, attr) : EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	cq = vb_cq_make(ctx, attr);
	if (!cq)
		return NULL;
	ex = &cq->ibv.ex;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
	return ex;
}
