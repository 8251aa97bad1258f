/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rconnect: address, route, connection. Each step is asked for here and
 * answered by a connection manager event, which the service takes; a blocking
 * rconnect only waits for the end.
 */
#include "service.h"
#include "stream.h"
#include "watch.h"

#include <string.h>

/* Time-outs of the steps: 1 s, then twice as much, this often. */
#define FIRST_TIMEOUT_MS 1000
#define RETRIES 6

/*
 * With these counts a lost acknowledgement does not break the connection, nor does a receiver that
 * is slow to post receives.
 */
#define RETRY_COUNT 7
#define RNR_RETRY_FOREVER 7

static int timeout(struct rs_stream *st)
{
	return FIRST_TIMEOUT_MS << st->retries++;
}

/* The steps return 0 or a positive errno. */

static int resolve_addr(struct rs_stream *st)
{
	st->state = RS_RESOLVING_ADDR;
	return rdma_resolve_addr(st->id, NULL, (struct sockaddr *)&st->peer, timeout(st)) ? errno : 0;
}

static int resolve_route(struct rs_stream *st)
{
	st->state = RS_RESOLVING_ROUTE;
	if (st->route) /* ROUTE_RESOLVED follows, as without a path */
		return rdma_set_option(st->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, st->route,
				       st->route_length)
			       ? errno
			       : 0;
	return rdma_resolve_route(st->id, timeout(st)) ? errno : 0;
}

static int request(struct rs_stream *st)
{
	struct rs_conn_data ours;
	struct rdma_conn_param param = {
		.private_data = &ours,
		.private_data_len = sizeof(ours),
		.flow_control = 1,
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_RETRY_FOREVER,
	};
	int error = rs_endpoint_open(st);

	if (error)
		return error;
	st->state = RS_CONNECTING;
	param.initiator_depth = st->by_send; /* iWARP may begin a connection with a READ */
	rs_conn_data_ours(st, &ours);
	return rdma_connect(st->id, &param) ? errno : 0;
}

static void connected(struct rs_stream *st)
{
	st->state = RS_CONNECTED;
	st->established = true;
	st->may_receive = st->may_send = true;
	rs_stream_progress(&st->s); /* and tell the peer of the second half */
}

/* Returns an event's status as an errno. Some providers leave it out. */
static int status_errno(const struct rdma_cm_event *event, int otherwise)
{
	return event->status < 0 ? -event->status : otherwise;
}

static void opening_event(struct rs_stream *st, const struct rdma_cm_event *event)
{
	int error = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		st->retries = 0;
		error = resolve_route(st);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		error = status_errno(event, EHOSTUNREACH);
		if (error == ETIMEDOUT && st->retries <= RETRIES)
			error = resolve_addr(st);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		st->retries = 0;
		error = request(st);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		error = status_errno(event, ENETUNREACH);
		if (error == ETIMEDOUT && st->retries <= RETRIES)
			error = resolve_route(st);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		/* The accepting side learnt of its peer from the request. */
		if (st->state == RS_CONNECTING &&
		    !rs_conn_data_peers(st, event->param.conn.private_data,
					event->param.conn.private_data_len)) {
			rdma_disconnect(st->id);
			error = EPROTO;
			break;
		}
		connected(st);
		break;
	case RDMA_CM_EVENT_REJECTED: /* no listener there, or it refused us */
		error = ECONNREFUSED;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		error = status_errno(event, ETIMEDOUT);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		error = status_errno(event, ECONNABORTED);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		error = ECONNRESET;
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		error = ENODEV;
		break;
	default:
		break;
	}
	if (error)
		rs_stream_fail(st, error);
}

void rs_connect_event(struct rs_stream *st, const struct rdma_cm_event *event)
{
	if (rs_opening(st)) {
		opening_event(st, event);
		return;
	}
	switch (event->event) {
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Data that the peer sent before is in the completion queue already. */
		rs_stream_progress(&st->s);
		if (st->state == RS_CONNECTED) {
			st->state = RS_DISCONNECTED;
			st->may_receive = st->may_send = false;
		}
		rdma_disconnect(st->id);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rs_stream_fail(st, ENODEV);
		break;
	default: /* TIMEWAIT_EXIT and others that change nothing */
		break;
	}
}

static bool settled(struct rs_socket *s)
{
	return !rs_opening(rs_stream(s));
}

static int start(struct rs_stream *st, const struct sockaddr *addr, socklen_t length)
{
	if (!addr || length < sizeof(addr->sa_family) || !rs_addr_length(addr))
		return -EAFNOSUPPORT;
	if (length < rs_addr_length(addr))
		return -EINVAL;
	memcpy(&st->peer, addr, rs_addr_length(addr));
	int error = rs_service_add(&st->s, st->channel->fd, 0);

	if (!error)
		error = -resolve_addr(st);
	if (error)
		st->state = RS_IDLE; /* rconnect may be called again */
	return error;
}

/* The event of an attempt that has ended changes nothing. */
static int outcome(struct rs_stream *st)
{
	if (st->state == RS_CONNECTED || st->state == RS_DISCONNECTED) {
		if (st->connect_told)
			return -EISCONN;
		st->connect_told = true;
		return 0;
	}
	int error = rs_stream_take_error(st);

	return error ? error : -ECONNABORTED;
}

int rs_stream_connect(struct rs_socket *s, const struct sockaddr *addr, socklen_t length)
{
	struct rs_stream *st = rs_stream(s);
	int error = 0;

	pthread_mutex_lock(&s->mu);
	if (st->state == RS_IDLE) {
		error = start(st, addr, length);
		if (!error)
			error = rs_wait(s, settled, rs_nonblocking(s, 0), RS_FOREVER);
		if (error == -EAGAIN)
			error = -EINPROGRESS;
		if (!error)
			error = outcome(st);
	} else if (st->state == RS_LISTENING) {
		error = -EOPNOTSUPP;
	} else {
		error = rs_opening(st) ? -EALREADY : outcome(st);
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}
