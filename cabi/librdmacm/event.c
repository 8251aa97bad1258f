/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events: rdma_get_cm_event(3), rdma_ack_cm_event(3), and the work on an event before the
 * application sees it.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

/* An event of the application. It keeps the objects that count it. */
struct cm_event {
	struct rdma_cm_event event; /* first */
	struct cm_id *counted;	    /* its destruction waits for the acknowledgement */
	struct cm_group *group;	    /* likewise, for MULTICAST_ events */
	struct vb_cm_event *raw;    /* has the private data */
};

void cm_event_discard(const struct vb_engine *engine, struct vb_cm_event *event)
{
	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST && event->new_id)
		engine->cm_id_destroy(event->new_id); /* refuses the request */
	free(event);
}

static void acknowledge(struct cm_event *event)
{
	pthread_mutex_lock(&cm_ids);
	event->counted->events_acked++;
	if (event->group)
		event->group->events_acked++;
	pthread_cond_broadcast(&cm_acked);
	pthread_mutex_unlock(&cm_ids);
	free(event->raw);
	free(event);
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_ack_cm_event, (struct rdma_cm_event *event), (event))
{
	if (!event)
		return cm_fail(EINVAL);
	acknowledge((struct cm_event *)event);
	return 0;
}

void cm_ack_last(struct rdma_cm_id *id)
{
	if (id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
}

/* -- consequences of events ------------------------------------------------------------ */

/* After a failure of ours the application gets another event, with a negative errno. */
static void turn(struct rdma_cm_event *event, enum rdma_cm_event_type type, int err)
{
	if (err) {
		event->event = type;
		event->status = -err;
	}
}

static void addr_resolved(struct cm_id *id, struct rdma_cm_event *event)
{
	int err = cm_query_route(id);

	if (!err && !id->id.verbs)
		err = ENODEV;
	turn(event, RDMA_CM_EVENT_ADDR_ERROR, err);
}

/*
 * A request. The application gets an identifier for it, which the count of the listener keeps until
 * the event is acknowledged.
 */
static int request(struct cm_id *listener, struct cm_event *event)
{
	struct cm_id *id;
	int err = cm_id_adopt(listener, event->raw->new_id, &id);

	if (err)
		return err;
	if (!event->raw->is_ud) {
		id->remote_ece = event->raw->ece;
		id->initiator_depth = event->event.param.conn.initiator_depth;
		id->responder_resources = event->event.param.conn.responder_resources;
	}
	event->event.listen_id = &listener->id;
	event->event.id = &id->id;
	return 0;
}

/*
 * The peer has accepted. If the identifier has a queue pair, it is made ready and the peer gets a
 * ready-to-use message. Otherwise the application does both.
 */
static void accepted(struct cm_id *id, struct rdma_cm_event *event)
{
	int err;

	if (!id->id.qp)
		return;
	err = cm_qp_rtr(&id->id, RDMA_MAX_RESP_RES);
	if (!err)
		err = cm_qp_rts(&id->id, RDMA_MAX_INIT_DEPTH);
	if (!err)
		err = id->engine->cm_establish(id->handle);
	if (!err) {
		event->event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	cm_qp_err(&id->id);
	/* Rejects the connection. The result of that does not matter. */
	id->engine->cm_reject(id->handle, NULL, 0);
	id->connect_error = 1;
	turn(event, RDMA_CM_EVENT_CONNECT_ERROR, err);
}

static void joined(struct cm_id *id, struct cm_event *event)
{
	if (!event->event.status)
		turn(&event->event, RDMA_CM_EVENT_MULTICAST_ERROR,
		     cm_group_joined(id, event->group, &event->event.param.ud.ah_attr.grh.dgid));
}

/* Handles an event. Returns false if the application is not to see it. */
static int process(struct cm_id *id, struct cm_event *event)
{
	switch (event->event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		addr_resolved(id, &event->event);
		return 1;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		turn(&event->event, RDMA_CM_EVENT_ROUTE_ERROR, cm_query_route(id));
		return 1;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return request(id, event) == 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		id->remote_ece = event->raw->ece;
		accepted(id, &event->event);
		return 1;
	case RDMA_CM_EVENT_REJECTED:
		if (id->connect_error)
			return 0; /* the application has destroyed it */
		cm_qp_err(&id->id);
		return 1;
	case RDMA_CM_EVENT_DISCONNECTED:
		return !id->connect_error;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		joined(id, event);
		return 1;
	default:
		return 1;
	}
}

/* -- from the engine's form to the application's ------------------------------------------ */

static void fill(struct cm_event *event)
{
	struct vb_cm_event *raw = event->raw;
	struct rdma_cm_event *e = &event->event;

	e->id = &event->counted->id;
	e->event = raw->type;
	e->status = raw->status;
	if (event->group) {
		e->param.ud = raw->param.ud;
		/* rdma_join_multicast(3): the context comes back in private_data. */
		e->param.ud.private_data = event->group->context;
		e->param.ud.private_data_len = 0;
	} else if (raw->type == CM_EVENT_USER) {
		memcpy(&e->param, &raw->param.arg, sizeof(raw->param.arg));
	} else if (raw->is_ud) {
		e->param.ud = raw->param.ud;
		e->param.ud.private_data = e->param.ud.private_data_len ? raw->priv : NULL;
	} else {
		e->param.conn = raw->param.conn;
		e->param.conn.private_data = e->param.conn.private_data_len ? raw->priv : NULL;
	}
}

static int of_group(const struct vb_cm_event *raw)
{
	return raw->type == RDMA_CM_EVENT_MULTICAST_JOIN || raw->type == RDMA_CM_EVENT_MULTICAST_ERROR;
}

/*
 * Finds the object of an event and counts the event there, so that the object stays until the
 * acknowledgement. Returns false if it is gone.
 */
static int count(struct cm_event *event)
{
	struct cm_id *id;
	struct cm_group *group = NULL;

	pthread_mutex_lock(&cm_ids);
	id = cm_id_find(event->raw->id);
	if (id && of_group(event->raw)) {
		for (group = id->groups; group && group->cookie != event->raw->context;)
			group = group->next;
		if (!group)
			id = NULL;
	}
	if (id)
		id->events_reported++;
	if (group)
		group->events_reported++;
	pthread_mutex_unlock(&cm_ids);
	event->counted = id;
	event->group = group;
	return id != NULL;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_get_cm_event,
	(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **out), (rdma_channel, out))
{
	struct cm_channel *channel = cm_channel_of(rdma_channel);

	if (!channel || !out)
		return cm_fail(EINVAL);
	for (;;) {
		struct cm_event *event = calloc(1, sizeof(*event));
		int err;

		if (!event)
			return -1;
		err = cm_channel_take(channel, &event->raw);
		if (err) {
			free(event);
			return cm_fail(err);
		}
		if (!count(event)) {
			cm_event_discard(channel->engine, event->raw);
			free(event);
			continue;
		}
		fill(event);
		if (process(event->counted, event)) {
			*out = &event->event;
			return 0;
		}
		acknowledge(event);
	}
}

/* -- events of the application ---------------------------------------------------------------- */

int cm_event_write(struct cm_id *id, uint32_t type, int status, uint64_t arg)
{
	struct vb_cm_event *raw = calloc(1, sizeof(*raw));
	int err;

	if (!raw)
		return ENOMEM;
	raw->id = id->cookie;
	raw->type = type;
	raw->status = status;
	raw->param.arg = arg;
	err = cm_channel_post(cm_channel_of(id->id.channel), raw);
	if (err)
		free(raw);
	return err;
}

/* rdma_write_cm_event(3), of rdma-core 59. */
VB_EXPORT VB_RETURNS_COUNT(int, rdma_write_cm_event,
			   (struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			    uint64_t arg),
			   (id, event, status, arg))
{
	if (!id || (unsigned)event != CM_EVENT_USER)
		return cm_fail(EINVAL);
	return cm_result(cm_event_write(cm_id_of(id), CM_EVENT_USER, status, arg));
}

/* -- synchronous mode ----------------------------------------------------------------------- */

int cm_complete(struct rdma_cm_id *id)
{
	if (!cm_id_of(id)->sync)
		return 0;
	do { /* an interface with another address, or a wake-up, is not what the call waits for */
		cm_ack_last(id);
		if (rdma_get_cm_event(id->channel, &id->event))
			return -1;
	} while (id->event->event == RDMA_CM_EVENT_ADDR_CHANGE ||
		 (unsigned)id->event->event == CM_EVENT_USER);
	if (!id->event->status)
		return 0;
	if (id->event->event == RDMA_CM_EVENT_REJECTED)
		return cm_fail(ECONNREFUSED); /* the status is the peer's reason */
	return cm_fail(abs(id->event->status));
}
