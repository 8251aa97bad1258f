/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of identifiers: rdma_create_qp(3), rdma_init_qp_attr(3), and their states. */
#include "cm.h"

#include <string.h>

int cm_is_ud(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD;
}

/* -- states -------------------------------------------------------------------------- */

/* Asks the engine for the attributes of a state: 0 or an errno. */
static int attr_for(struct rdma_cm_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		    int *mask)
{
	memset(attr, 0, sizeof(*attr));
	*mask = 0;
	attr->qp_state = state;
	return cm_id_of(id)->engine->cm_init_qp_attr(cm_id_of(id)->handle, attr, mask);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_init_qp_attr,
	(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask), (id, attr, mask))
{
	if (!id || !attr || !mask)
		return cm_fail(EINVAL);
	return cm_result(attr_for(id, attr->qp_state, attr, mask));
}

int cm_qp_rtr(struct rdma_cm_id *id, uint8_t responder_resources)
{
	struct ibv_qp_attr attr;
	int mask, err;

	if (!id->qp)
		return 0;
	err = attr_for(id, IBV_QPS_RTR, &attr, &mask);
	if (err)
		return err;
	if (responder_resources != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = responder_resources;
	return ibv_modify_qp(id->qp, &attr, mask);
}

int cm_qp_rts(struct rdma_cm_id *id, uint8_t initiator_depth)
{
	struct ibv_qp_attr attr;
	int mask, err;

	if (!id->qp)
		return 0;
	err = attr_for(id, IBV_QPS_RTS, &attr, &mask);
	if (err)
		return err;
	if (initiator_depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = initiator_depth;
	return ibv_modify_qp(id->qp, &attr, mask);
}

int cm_qp_err(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->qp ? ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) : 0;
}

/* Takes a new queue pair to INIT, where it may be given receives. */
static int start(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask, err;

	err = cm_id_of(id)->engine->cm_set_type(cm_id_of(id)->handle, qp->qp_type);
	if (!err)
		err = attr_for(id, IBV_QPS_INIT, &attr, &mask);
	return err ? err : ibv_modify_qp(qp, &attr, mask);
}

/* Takes a datagram queue pair on to RTS. */
static int start_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	int err = ibv_modify_qp(qp, &rtr, IBV_QP_STATE);

	return err ? err : ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/* -- completion queues ------------------------------------------------------------------ */

void cm_destroy_cqs(struct rdma_cm_id *id)
{
	/* The completion queues of an XRC target belong to its SRQ. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	if (id->send_cq && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	id->send_cq = id->recv_cq = NULL;
	id->send_cq_channel = id->recv_cq_channel = NULL;
}

/* Makes one completion queue with its channel. */
static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	if (!size)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return errno ? errno : ENOMEM;
	*cq = ibv_create_cq(id->verbs, size, id, *channel, 0);
	return *cq ? 0 : errno ? errno : ENOMEM;
}

int cm_create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int err;

	errno = 0;
	err = create_cq(id, recv_size, &id->recv_cq_channel, &id->recv_cq);
	if (!err)
		err = create_cq(id, send_size, &id->send_cq_channel, &id->send_cq);
	if (err)
		cm_destroy_cqs(id);
	return err;
}

/* -- making and destroying ----------------------------------------------------------------- */

/* Fills in the domains that the application left open: 0 or an errno. */
static int fill_domains(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		return EINVAL;
	}
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return 0;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		return cm_device_xrcd(cm_id_of(id)->device, &attr->xrcd);
	}
	return 0;
}

/* Returns whether the queues of the attributes go with those of the identifier. */
static int queues_fit(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	return (!id->send_cq || !attr->send_cq || id->send_cq == attr->send_cq) &&
	       (!id->recv_cq || !attr->recv_cq || id->recv_cq == attr->recv_cq);
}

/* Destroys the completion queues that were made for a queue pair that failed. */
static void destroy_new_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_cq *send_cq = id->send_cq, *recv_cq = id->recv_cq;

	cm_destroy_cqs(id);
	if (!id->send_cq && attr->send_cq == send_cq)
		attr->send_cq = NULL;
	if (!id->recv_cq && attr->recv_cq == recv_cq)
		attr->recv_cq = NULL;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_qp_ex,
	(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr), (id, attr))
{
	struct ibv_qp *qp = NULL;
	int err;

	if (!id || !attr || id->qp || !id->verbs || !queues_fit(id, attr))
		return cm_fail(EINVAL);
	/* rdma_cm(7): datagrams in the UDP port space, connections in TCP's. */
	if (((id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB) && attr->qp_type != IBV_QPT_UD) ||
	    (id->ps == RDMA_PS_TCP && attr->qp_type == IBV_QPT_UD))
		return cm_fail(EINVAL);
	err = fill_domains(id, attr);
	if (err)
		return cm_fail(err);
	err = cm_create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
			    attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (err)
		return cm_fail(err);
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (!attr->srq)
		attr->srq = id->srq;
	errno = 0;
	qp = ibv_create_qp_ex(id->verbs, attr);
	if (!qp)
		err = errno ? errno : EINVAL;
	else
		err = start(id, qp);
	if (!err && cm_is_ud(qp->qp_type))
		err = start_ud(qp);
	if (err) {
		if (qp)
			ibv_destroy_qp(qp);
		destroy_new_cqs(id, attr);
		return cm_fail(err);
	}
	id->pd = qp->pd;
	id->qp = qp;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_qp,
	(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr))
{
	struct ibv_qp_init_attr_ex ex;
	int ret;

	if (!id || !attr)
		return cm_fail(EINVAL);
	memset(&ex, 0, sizeof(ex));
	memcpy(&ex, attr, sizeof(*attr)); /* one begins as the other */
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	ret = rdma_create_qp_ex(id, &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return ret;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_destroy_qp, (struct rdma_cm_id *id), (id))
{
	if (!id || !id->qp)
		return;
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	cm_destroy_cqs(id);
}
