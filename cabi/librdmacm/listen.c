/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The passive side: rdma_listen(3) and, in synchronous mode, rdma_get_request(3).
 */
#include "cm.h"

#include <stdlib.h>

VB_EXPORT VB_RETURNS_COUNT(int, rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog))
{
	int err;

	if (!id)
		return cm_fail(EINVAL);
	err = cm_id_of(id)->engine->cm_listen(cm_id_of(id)->handle, backlog);
	if (!err)
		err = cm_query_route(cm_id_of(id)); /* the engine has chosen the port if none was given */
	return cm_result(err);
}

/* Returns why an event is not the expected request: 0 or an errno. */
static int check_request(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (event->status)
		return abs(event->status);
	return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_get_request,
			   (struct rdma_cm_id *listen, struct rdma_cm_id **id), (listen, id))
{
	struct rdma_cm_event *event;
	int err;

	if (!listen || !id || !cm_id_of(listen)->sync)
		return cm_fail(EINVAL);
	cm_ack_last(listen);
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	err = check_request(event);
	if (!err && cm_id_of(listen)->qp_init_attr) {
		struct ibv_qp_init_attr attr = *cm_id_of(listen)->qp_init_attr;
		struct ibv_pd *pd =
			listen->pd && listen->pd->context == event->id->verbs ? listen->pd : NULL;

		if (rdma_create_qp(event->id, pd, &attr))
			err = errno;
	}
	if (err) {
		listen->event = event;
		return cm_fail(err);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
