/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of a context that applications call. For those missing here, which
 * stay NULL, the inline functions of <infiniband/verbs.h> return EOPNOTSUPP.
 */
#include "cq.h"
#include "dm.h"
#include "flow.h"
#include "mr.h"
#include "mw.h"
#include "pd.h"
#include "qp.h"
#include "srq.h"
#include "wq.h"
#include "xrcd.h"

void vb_fill_ops(struct vb_context *context)
{
	struct verbs_context *v = &context->verbs;
	struct ibv_context_ops *o = &v->context.ops;

	o->alloc_mw = vb_alloc_mw;
	o->bind_mw = vb_bind_mw;
	o->dealloc_mw = vb_dealloc_mw;
	o->poll_cq = vb_poll_cq;
	o->req_notify_cq = vb_req_notify_cq;
	o->post_send = vb_post_send;
	o->post_recv = vb_post_recv;
	o->post_srq_recv = vb_post_srq_recv;

	v->advise_mr = vb_advise_mr;
	v->alloc_null_mr = vb_alloc_null_mr;
	v->alloc_dm = vb_alloc_dm;
	v->free_dm = vb_free_dm;
	v->reg_dm_mr = vb_reg_dm_mr;
	v->create_cq_ex = vb_create_cq_ex;
	v->create_qp_ex = vb_create_qp_ex;
	v->modify_cq = vb_modify_cq;
	v->modify_qp_rate_limit = vb_modify_qp_rate_limit;
	v->ibv_create_flow = vb_create_flow;
	v->ibv_destroy_flow = vb_destroy_flow;
	v->create_counters = vb_create_counters;
	v->destroy_counters = vb_destroy_counters;
	v->attach_counters_point_flow = vb_attach_counters_point_flow;
	v->read_counters = vb_read_counters;
	v->create_wq = vb_create_wq;
	v->modify_wq = vb_modify_wq;
	v->destroy_wq = vb_destroy_wq;
	v->create_rwq_ind_table = vb_create_rwq_ind_table;
	v->destroy_rwq_ind_table = vb_destroy_rwq_ind_table;
	v->open_qp = vb_open_qp;
	v->create_srq_ex = vb_create_srq_ex;
	v->get_srq_num = vb_get_srq_num;
	v->post_srq_ops = vb_post_srq_ops;
	v->open_xrcd = vb_open_xrcd;
	v->close_xrcd = vb_close_xrcd;
	v->alloc_td = vb_alloc_td;
	v->dealloc_td = vb_dealloc_td;
	v->alloc_parent_domain = vb_alloc_parent_domain;
}
