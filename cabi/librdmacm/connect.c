/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: rdma_connect(3), rdma_accept(3), rdma_reject(3),
 * rdma_establish(3), rdma_disconnect(3), rdma_notify(3).
 */
#include "cm.h"

#include <stdlib.h>
#include <stdbool.h>
#include <string.h>

/* The parameters for an application that gives none: the largest retry counts. */
#define DEFAULT_RETRIES 7

/* private_data_len has 8 bits. */
#define MAX_PRIVATE UINT8_MAX

/* Parameters, and the private data that they point to. */
struct params {
	struct rdma_conn_param conn;
	uint8_t private_data[MAX_PRIVATE];
};

/* Checks a depth that the application may leave open. */
static uint8_t chosen(uint8_t asked, uint8_t open, uint8_t most)
{
	return asked == open ? most : asked;
}

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/*
 * Checks the parameters of the application against the device, and fills in those left open: 0 or
 * an errno. param may be NULL if the identifier has a queue pair. The largest numbers are those of
 * the device, and with asked at most those that the peer has asked for.
 */
static int fill_params(struct cm_id *id, const struct rdma_conn_param *param, bool asked,
		       struct params *out)
{
	struct rdma_conn_param *conn = &out->conn;
	uint8_t most_resources, most_depth;
	size_t len = 0;

	memset(out, 0, sizeof(*out));
	if (!id->device || (!param && !id->id.qp))
		return EINVAL;
	most_resources = id->device->max_responder_resources;
	most_depth = id->device->max_initiator_depth;
	if (asked) {
		most_resources = least(id->responder_resources, most_resources);
		most_depth = least(id->initiator_depth, most_depth);
	}
	conn->retry_count = conn->rnr_retry_count = DEFAULT_RETRIES;
	conn->responder_resources = most_resources;
	conn->initiator_depth = most_depth;
	if (param) {
		if (!cm_is_ud(id->id.qp_type) &&
		    ((param->responder_resources != RDMA_MAX_RESP_RES &&
		      param->responder_resources > id->device->max_responder_resources) ||
		     (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
		      param->initiator_depth > id->device->max_initiator_depth)))
			return EINVAL;
		*conn = *param;
		conn->responder_resources =
			chosen(param->responder_resources, RDMA_MAX_RESP_RES, most_resources);
		conn->initiator_depth = chosen(param->initiator_depth, RDMA_MAX_INIT_DEPTH, most_depth);
	}
	if (id->id.qp) {
		conn->qp_num = id->id.qp->qp_num;
		conn->srq = id->id.qp->srq != NULL;
	}
	/* ai_connect of rdma_getaddrinfo(3) precedes private data. */
	if (id->connect_len > MAX_PRIVATE)
		return EINVAL;
	if (id->connect_len) {
		memcpy(out->private_data, id->connect, id->connect_len);
		len = id->connect_len;
	}
	if (param && param->private_data && param->private_data_len) {
		if (len + param->private_data_len > MAX_PRIVATE)
			return EINVAL;
		memcpy(out->private_data + len, param->private_data, param->private_data_len);
		len += param->private_data_len;
	}
	conn->private_data = len ? out->private_data : NULL;
	conn->private_data_len = len;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_connect,
	(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param), (rdma_id, param))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct params params;
	int err;

	if (!id)
		return cm_fail(EINVAL);
	err = fill_params(id, param, false, &params);
	if (!err)
		err = id->engine->cm_connect(id->handle, &params.conn, &id->local_ece);
	if (err)
		return cm_fail(err);
	id->connect_error = 0;
	id->responder_resources = params.conn.responder_resources;
	id->initiator_depth = params.conn.initiator_depth;
	return cm_complete(rdma_id);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_accept,
	(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param), (rdma_id, param))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct params params;
	struct ibv_ece ece; /* the vendor is the peer's: rdma-core answers so, too */
	int err;

	if (!id)
		return cm_fail(EINVAL);
	err = fill_params(id, param, true, &params);
	if (!err && !cm_is_ud(id->id.qp_type)) {
		/* The queue pair is ready before the engine accepts: the peer may send at once. */
		err = cm_qp_rtr(rdma_id, params.conn.responder_resources);
		if (!err)
			err = cm_qp_rts(rdma_id, params.conn.initiator_depth);
	}
	if (err)
		return cm_fail(err);
	ece = (struct ibv_ece){.vendor_id = id->remote_ece.vendor_id, .options = id->local_ece.options};
	err = id->engine->cm_accept(id->handle, &params.conn, &ece);
	if (err) {
		cm_qp_err(rdma_id); /* the error to return is that of the engine */
		return cm_fail(err);
	}
	id->responder_resources = params.conn.responder_resources;
	id->initiator_depth = params.conn.initiator_depth;
	if (cm_is_ud(id->id.qp_type)) {
		/* No event follows a reject. */
		if (id->sync)
			cm_ack_last(rdma_id);
		return 0;
	}
	return cm_complete(rdma_id);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_reject,
	(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len),
	(id, private_data, private_data_len))
{
	if (!id || (private_data_len && !private_data))
		return cm_fail(EINVAL);
	return cm_result(cm_id_of(id)->engine->cm_reject(cm_id_of(id)->handle, private_data,
							 private_data_len));
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_reject_ece,
	(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len),
	(id, private_data, private_data_len))
{
	if (!id || (private_data_len && !private_data))
		return cm_fail(EINVAL);
	return cm_result(cm_id_of(id)->engine->cm_reject_ece(cm_id_of(id)->handle, private_data,
							     private_data_len));
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_establish, (struct rdma_cm_id *id), (id))
{
	/* rdma_establish(3) is an error if the identifier has a queue pair. */
	if (!id || id->qp)
		return cm_fail(EINVAL);
	return cm_result(cm_id_of(id)->engine->cm_establish(cm_id_of(id)->handle));
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event),
			   (id, event))
{
	if (!id)
		return cm_fail(EINVAL);
	return cm_result(cm_id_of(id)->engine->cm_notify(cm_id_of(id)->handle, event));
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_disconnect, (struct rdma_cm_id *id), (id))
{
	int err;

	if (!id || !id->verbs)
		return cm_fail(EINVAL);
	/*
	 * The queue pair goes first, so that outstanding work is flushed in any case. An iWARP stream
	 * is closed behind the posted work.
	 */
	err = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP ? 0 : cm_qp_err(id);
	if (!err)
		err = cm_id_of(id)->engine->cm_disconnect(cm_id_of(id)->handle);
	return err ? cm_fail(err) : cm_complete(id);
}
