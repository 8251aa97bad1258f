/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues of identifiers: rdma_create_srq(3).
 */
#include "cm.h"

#include <string.h>

/* Fills in the attributes of an XRC SRQ that the application left open: 0 or an errno. */
static int fill_xrc(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		err = cm_device_xrcd(cm_id_of(id)->device, &attr->xrcd);
		if (err)
			return err;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (!id->recv_cq) {
			err = cm_create_cqs(id, 0, attr->attr.max_wr);
			if (err)
				return err;
		}
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_srq_ex,
	(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr), (id, attr))
{
	struct ibv_srq *srq;
	int err = 0;

	if (!id || !attr || !id->verbs || id->srq || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return cm_fail(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->verbs)
		return cm_fail(EINVAL);
	if (attr->srq_type == IBV_SRQT_XRC)
		err = fill_xrc(id, attr);
	if (err)
		return cm_fail(err);
	errno = 0;
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq) {
		err = errno ? errno : EINVAL;
		if (!id->qp)
			cm_destroy_cqs(id);
		return cm_fail(err);
	}
	if (!id->pd)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_srq,
	(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (id, pd, attr))
{
	struct ibv_srq_init_attr_ex ex;
	int ret;

	if (!id || !attr)
		return cm_fail(EINVAL);
	memset(&ex, 0, sizeof(ex));
	memcpy(&ex, attr, sizeof(*attr)); /* one begins as the other */
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	ex.pd = pd ? pd : id->pd;
	ret = rdma_create_srq_ex(id, &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return ret;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_destroy_srq, (struct rdma_cm_id *id), (id))
{
	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	/* The queues stay while a queue pair may complete into them. */
	if (!id->qp)
		cm_destroy_cqs(id);
}
