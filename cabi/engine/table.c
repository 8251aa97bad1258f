/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one symbol of libverbena-engine.so: the table of engine.h, filled with
 * what Go exports. Where cgo cannot say a type of engine.h (const, _Atomic), a
 * function here does.
 */
#include "engine.h"
#include "_cgo_export.h"

#include <stddef.h>

/* wr.go reads work requests by types of its own. */
_Static_assert(sizeof(void *) == 8, "64-bit only");
_Static_assert(offsetof(struct ibv_send_wr, next) == 8, "sendWR.next");
_Static_assert(offsetof(struct ibv_send_wr, sg_list) == 16, "sendWR.sgList");
_Static_assert(offsetof(struct ibv_send_wr, num_sge) == 24, "sendWR.numSGE");
_Static_assert(offsetof(struct ibv_send_wr, opcode) == 28, "sendWR.opcode");
_Static_assert(offsetof(struct ibv_send_wr, send_flags) == 32, "sendWR.flags");
_Static_assert(offsetof(struct ibv_send_wr, imm_data) == 36, "sendWR.imm");
_Static_assert(offsetof(struct ibv_send_wr, wr) == 40, "sendWR.op");
_Static_assert(offsetof(struct ibv_send_wr, wr.rdma.rkey) == 48, "opRDMA.rkey");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.compare_add) == 48, "opAtomic.compareAdd");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.swap) == 56, "opAtomic.swap");
_Static_assert(offsetof(struct ibv_send_wr, wr.atomic.rkey) == 64, "opAtomic.rkey");
_Static_assert(offsetof(struct ibv_send_wr, wr.ud.remote_qpn) == 48, "opUD.qpn");
_Static_assert(offsetof(struct ibv_send_wr, wr.ud.remote_qkey) == 52, "opUD.qkey");
_Static_assert(offsetof(struct ibv_send_wr, qp_type.xrc.remote_srqn) == 72, "sendWR.xrcSRQN");
_Static_assert(offsetof(struct ibv_send_wr, bind_mw.mw) == 80, "sendWR.mw");
_Static_assert(offsetof(struct ibv_send_wr, bind_mw.rkey) == 88, "sendWR.mwKey");
_Static_assert(offsetof(struct ibv_send_wr, bind_mw.bind_info) == 96, "sendWR.bindInfo");
_Static_assert(sizeof(struct ibv_sge) == 16 && offsetof(struct ibv_sge, length) == 8 && offsetof(struct ibv_sge, lkey) == 12, "ib.SGE");

/* queue.Ring; its own test holds the same numbers. */
_Static_assert(offsetof(struct vb_cq_ring, head) == 0, "Ring.head");
_Static_assert(offsetof(struct vb_cq_ring, tail) == 64, "Ring.tail");
_Static_assert(offsetof(struct vb_cq_ring, overrun) == 72, "Ring.overrun");
_Static_assert(offsetof(struct vb_cq_ring, mask) == 128, "Ring.mask");
_Static_assert(offsetof(struct vb_cq_ring, slots) == 136, "Ring.base");
_Static_assert(offsetof(struct vb_wc, vendor_err) == 12 && offsetof(struct vb_wc, sl) == 40, "ib.WC");

/* queue.RecvRing. */
_Static_assert(offsetof(struct vb_recv_ring, head) == 0, "RecvRing.head");
_Static_assert(offsetof(struct vb_recv_ring, tail) == 64, "RecvRing.tail");
_Static_assert(offsetof(struct vb_recv_ring, posting) == 128, "RecvRing.posting");
_Static_assert(sizeof(struct vb_recv_ring) == 192, "RecvRing");
_Static_assert(VB_RECV_REFUSED == 0 && VB_RECV_FREE == 1 && VB_RECV_NOTIFY == 2, "Posting");

/* ring.boardMemory. */
_Static_assert(offsetof(struct vb_news, patient) == 0, "boardMemory.patient");
_Static_assert(offsetof(struct vb_news, seats) == 4, "boardMemory.seats");
_Static_assert(offsetof(struct vb_news, mask) == 8, "boardMemory.mask");
_Static_assert(offsetof(struct vb_news, looks) == 64, "boardMemory.looks");
_Static_assert(offsetof(struct vb_news, at) == 128, "boardMemory.at");
_Static_assert(sizeof(((struct vb_news *)0)->at[0]) == 16, "seat");

static int ctx_open(const char *device, int async_fd, vb_handle *ctx)
{
	return vb_ctx_open((char *)device, async_fd, ctx);
}

static int cq_create(vb_handle ctx, int depth, struct vb_cq_ring *ring, int channel_fd, vb_cookie cookie, vb_handle *cq)
{
	return vb_cq_create_over(ctx, depth, ring, ring->slots, ring->mask, channel_fd, cookie, cq);
}

static int news(vb_handle ctx, struct vb_news **news)
{
	*news = vb_news_board(ctx);
	return 0;
}

static int qp_attach_mcast(vb_handle qp, const union ibv_gid *gid)
{
	return vb_qp_multicast(qp, (union ibv_gid *)gid, 1);
}

static int qp_detach_mcast(vb_handle qp, const union ibv_gid *gid)
{
	return vb_qp_multicast(qp, (union ibv_gid *)gid, 0);
}

static int cm_bind(vb_handle id, const struct sockaddr *addr)
{
	return vb_cm_bind(id, (struct sockaddr *)addr);
}

static int cm_resolve_addr(vb_handle id, const struct sockaddr *src, const struct sockaddr *dst, int timeout_ms)
{
	(void)timeout_ms; /* nothing waits: see vb_cm_resolve_addr */
	return vb_cm_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst);
}

static int cm_resolve_route(vb_handle id, int timeout_ms)
{
	(void)timeout_ms; /* nothing waits: see vb_cm_resolve_addr */
	return vb_cm_resolve_route(id);
}

static int cm_connect(vb_handle id, const struct rdma_conn_param *param)
{
	return vb_cm_connect(id, (struct rdma_conn_param *)param);
}

static int cm_accept(vb_handle id, const struct rdma_conn_param *param)
{
	return vb_cm_accept(id, (struct rdma_conn_param *)param);
}

static int cm_reject(vb_handle id, const void *priv, uint8_t length)
{
	return vb_cm_reject(id, (void *)priv, length);
}

static int cm_reject_ece(vb_handle id, const void *priv, uint8_t length)
{
	return vb_cm_reject_ece(id, (void *)priv, length);
}

static int cm_set_option(vb_handle id, int level, int optname, const void *value, size_t length)
{
	return vb_cm_set_option(id, level, optname, (void *)value, length);
}

static int cm_join(vb_handle id, const struct sockaddr *addr, uint64_t join_flags, vb_cookie context)
{
	return vb_cm_join(id, (struct sockaddr *)addr, join_flags, context);
}

static int cm_leave(vb_handle id, const struct sockaddr *addr)
{
	return vb_cm_leave(id, (struct sockaddr *)addr);
}

__attribute__((visibility("default"))) const struct vb_engine verbena_engine = {
	.version = VB_ENGINE_VERSION,

	.descriptors = vb_descriptors,
	.links = vb_links,

	.ctx_open = ctx_open,
	.ctx_close = vb_ctx_close,
	.ctx_violations = vb_ctx_violations,
	.progress = vb_progress,
	.news = news,
	.wake = vb_wake,

	.pd_alloc = vb_pd_alloc,
	.pd_free = vb_pd_free,
	.xrcd_open = vb_xrcd_open,
	.xrcd_close = vb_xrcd_close,
	.mr_reg = vb_mr_reg,
	.mr_rereg = vb_mr_rereg,
	.mr_dereg = vb_mr_dereg,
	.mw_alloc = vb_mw_alloc,
	.mw_free = vb_mw_free,

	.cq_create = cq_create,
	.cq_resize = vb_cq_resize,
	.cq_arm = vb_cq_arm,
	.cq_destroy = vb_cq_destroy,

	.srq_create = vb_srq_create,
	.srq_modify = vb_srq_modify,
	.srq_query = vb_srq_query,
	.srq_destroy = vb_srq_destroy,

	.qp_create = vb_qp_create,
	.qp_open = vb_qp_open,
	.qp_modify = vb_qp_modify,
	.qp_query = vb_qp_query,
	.qp_post_send = vb_qp_post_send,
	.qp_recvs_posted = vb_qp_recvs_posted,
	.qp_bind_mw = vb_qp_bind_mw,
	.qp_attach_mcast = qp_attach_mcast,
	.qp_detach_mcast = qp_detach_mcast,
	.qp_destroy = vb_qp_destroy,

	.ah_create = vb_ah_create,
	.ah_destroy = vb_ah_destroy,

	.cm_channel_create = vb_cm_channel_create,
	.cm_channel_destroy = vb_cm_channel_destroy,
	.cm_id_create = vb_cm_id_create,
	.cm_id_adopt = vb_cm_id_adopt,
	.cm_id_destroy = vb_cm_id_destroy,
	.cm_set_type = vb_cm_set_type,
	.cm_migrate = vb_cm_migrate,
	.cm_bind = cm_bind,
	.cm_resolve_addr = cm_resolve_addr,
	.cm_resolve_route = cm_resolve_route,
	.cm_route = vb_cm_route,
	.cm_listen = vb_cm_listen,
	.cm_connect = cm_connect,
	.cm_accept = cm_accept,
	.cm_establish = vb_cm_establish,
	.cm_reject = cm_reject,
	.cm_reject_ece = cm_reject_ece,
	.cm_disconnect = vb_cm_disconnect,
	.cm_notify = vb_cm_notify,
	.cm_set_option = cm_set_option,
	.cm_qp_create = vb_cm_qp_create,
	.cm_qp_destroy = vb_cm_qp_destroy,
	.cm_init_qp_attr = vb_cm_init_qp_attr,
	.cm_join = cm_join,
	.cm_leave = cm_leave,
	.use_gid_tables = vb_use_gid_tables,
};
