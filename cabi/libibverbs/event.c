/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3).
 */
#include "cookie.h"
#include "cq.h"
#include "pipe.h"
#include "qp.h"
#include "srq.h"

#include <errno.h>
#include <string.h>

/* Returns the kind of object that an event type is about: enum ibv_event_type. */
enum about { ABOUT_PORT, ABOUT_QP, ABOUT_CQ, ABOUT_SRQ, ABOUT_WQ };

static enum about about(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ABOUT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ABOUT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ABOUT_SRQ;
	case IBV_EVENT_WQ_FATAL:
		return ABOUT_WQ;
	default:
		return ABOUT_PORT;
	}
}

/* Fills in the object of an event; returns 0 if it is gone. */
static int name(struct ibv_async_event *event, vb_cookie cookie)
{
	void *object = vb_cookie_report_async(cookie);

	if (!object)
		return 0;
	switch (about(event->event_type)) {
	case ABOUT_QP:
		event->element.qp = &((struct vb_qp *)object)->ibv.qp;
		break;
	case ABOUT_CQ:
		event->element.cq = &((struct vb_cq *)object)->ibv.cq;
		break;
	default:
		event->element.srq = &((struct vb_srq *)object)->srq;
	}
	return 1;
}

VB_EXPORT VB_RETURNS_COUNT(int, ibv_get_async_event,
	(struct ibv_context *ibctx, struct ibv_async_event *event), (ibctx, event))
{
	const struct vb_engine *engine;
	struct vb_async_event record;
	struct vb_context *ctx;
	vb_handle handle;
	int err;

	if (!ibctx || !event) {
		errno = EINVAL;
		return -1;
	}
	ctx = vb_context_of(ibctx);
	/* In a child of a fork the pipe belongs to the parent, until an object is made here. */
	engine = atomic_load(&ctx->engine);
	if (engine && !vb_engine_alive(engine)) {
		errno = EIO;
		return -1;
	}
	/* A thread that waits without an object of its own waits for events of the port. */
	err = engine ? 0 : vb_context_handle(ibctx, &handle);
	if (err) {
		errno = err;
		return -1;
	}
	for (;;) {
		err = vb_pipe_read(ibctx->async_fd, &record, sizeof(record), ctx);
		if (err) {
			errno = err;
			return -1;
		}
		memset(event, 0, sizeof(*event));
		event->event_type = (enum ibv_event_type)record.type;
		switch (about(event->event_type)) {
		case ABOUT_PORT:
			event->element.port_num = (int)record.port;
			return 0;
		case ABOUT_WQ: /* there are none */
			continue;
		default:
			if (name(event, record.object))
				return 0;
		}
	}
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_ack_async_event, (struct ibv_async_event *event), (event))
{
	struct ibv_qp *qp = event->element.qp;
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;

	switch (about(event->event_type)) {
	case ABOUT_QP:
		ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case ABOUT_CQ:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case ABOUT_SRQ:
		ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	case ABOUT_WQ:
	case ABOUT_PORT:
		break;
	}
}
