/* SPDX-License-Identifier: BSD-2-Clause */
/* How a stream begins and ends. */
#include "stream.h"

#include "defaults.h"
#include "index.h"
#include "service.h"
#include "watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int stream_bind(struct rs_socket *s, const struct sockaddr *addr, socklen_t length)
{
	struct rs_stream *st = rs_stream(s);

	if (!addr || length < sizeof(addr->sa_family) || !rs_addr_length(addr))
		return -EAFNOSUPPORT;
	if (length < rs_addr_length(addr))
		return -EINVAL;
	pthread_mutex_lock(&s->mu);
	int error = st->state != RS_IDLE			      ? -EINVAL
		    : rdma_bind_addr(st->id, (struct sockaddr *)addr) ? -errno
								      : 0;

	pthread_mutex_unlock(&s->mu);
	return error;
}

static int stream_getpeername(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	struct rs_stream *st = rs_stream(s);

	pthread_mutex_lock(&s->mu);
	bool connected = st->state >= RS_CONNECTED && rs_addr_length(rdma_get_peer_addr(st->id));

	if (connected)
		rs_copy_addr(rdma_get_peer_addr(st->id), addr, length);
	pthread_mutex_unlock(&s->mu);
	return connected ? 0 : -ENOTCONN;
}

static int stream_getsockname(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	struct rs_stream *st = rs_stream(s);
	struct sockaddr_storage none = { .ss_family = (sa_family_t)s->domain };

	pthread_mutex_lock(&s->mu);
	struct sockaddr *local = rdma_get_local_addr(st->id);

	rs_copy_addr(rs_addr_length(local) ? local : (struct sockaddr *)&none, addr, length);
	pthread_mutex_unlock(&s->mu);
	return 0;
}

static void take_request(struct rs_stream *listener, struct rdma_cm_event *event)
{
	struct rs_conn_data data = { 0 };
	size_t length = event->param.conn.private_data_len;
	struct rdma_cm_id *id = event->id;

	if (event->param.conn.private_data)
		memcpy(&data, event->param.conn.private_data,
		       length < sizeof(data) ? length : sizeof(data));
	rdma_ack_cm_event(event); /* rdma_migrate_id waits for it */
	rs_listen_request(listener, id, &data, length);
}

/*
 * Handles connection manager events. Taking an event changes the identifier, as the calls do that
 * the event answers, and which may not have returned yet.
 */
static void stream_service(struct rs_socket *s, int which)
{
	struct rs_stream *st = rs_stream(s);
	struct rdma_cm_event *event;

	(void)which; /* there is one descriptor */
	for (;;) {
		pthread_mutex_lock(&s->mu);
		bool none = st->paused || rdma_get_cm_event(st->channel, &event);

		if (none || event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			pthread_mutex_unlock(&s->mu);
			if (none)
				return;
			take_request(st, event);
			continue;
		}
		rs_connect_event(st, event);
		rs_ring(s);
		rdma_ack_cm_event(event);
		pthread_mutex_unlock(&s->mu);
		rs_listen_settled(st);
	}
}

static void stream_free(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	rs_service_remove(st->channel->fd);
	rs_iomap_free(st);
	rs_endpoint_close(st);
	rdma_destroy_id(st->id);
	rdma_destroy_event_channel(st->channel);
	free(st->route);
	pthread_mutex_destroy(&st->send_mu);
	pthread_mutex_destroy(&st->receive_mu);
	pthread_mutex_destroy(&s->mu);
	free(st);
}

static const struct rs_ops ops = {
	.bind = stream_bind,
	.listen = rs_stream_listen,
	.accept = rs_stream_accept,
	.connect = rs_stream_connect,
	.shutdown = rs_stream_shutdown,
	.close = rs_stream_close,
	.free = stream_free,
	.receive = rs_stream_receive,
	.send = rs_stream_send,
	.getpeername = stream_getpeername,
	.getsockname = stream_getsockname,
	.setsockopt = rs_stream_setsockopt,
	.getsockopt = rs_stream_getsockopt,
	.service = stream_service,
	.progress = rs_stream_progress,
	.events = rs_stream_events,
	.sleep_on = rs_stream_sleep_on,
};

/* Makes a stream without an identifier. NULL: errno. */
static struct rs_stream *new_stream(int domain)
{
	struct rs_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->channel = rdma_create_event_channel();
	if (!st->channel || fcntl(st->channel->fd, F_SETFL, O_NONBLOCK)) {
		int error = errno;

		if (st->channel)
			rdma_destroy_event_channel(st->channel);
		free(st);
		errno = error;
		return NULL;
	}
	rs_socket_init(&st->s, &ops, domain, SOCK_STREAM);
	pthread_mutex_init(&st->send_mu, NULL);
	pthread_mutex_init(&st->receive_mu, NULL);
	st->pending_control = -1;
	return st;
}

/* Frees a stream that has no identifier. */
static void discard(struct rs_stream *st)
{
	int error = errno;

	rdma_destroy_event_channel(st->channel);
	free(st);
	errno = error;
}

int rs_stream_new(int domain, struct rs_socket **s)
{
	const struct rs_default_values *defaults = rs_defaults();
	struct rs_stream *st = new_stream(domain);

	if (!st)
		return -errno;
	if (rdma_create_id(st->channel, &st->id, st, RDMA_PS_TCP)) {
		discard(st);
		return -errno;
	}
	st->send_buffer = defaults->send_buffer;
	st->receive_buffer = defaults->receive_buffer;
	st->send_queue = defaults->send_queue;
	st->receive_queue = defaults->receive_queue;
	st->inline_data = defaults->inline_data;
	st->iomap_size = defaults->iomap_size;
	*s = &st->s;
	return st->channel->fd;
}

struct rs_stream *rs_stream_for_request(struct rs_stream *listener, struct rdma_cm_id *id)
{
	struct rs_stream *st = new_stream(listener->s.domain);

	if (!st)
		return NULL;
	if (rdma_migrate_id(id, st->channel)) {
		discard(st);
		return NULL;
	}
	st->id = id;
	id->context = st;
	st->listener = rs_stream(rs_hold(&listener->s));
	/* Copies the options that an accepted socket inherits with rdma-core, O_NONBLOCK among them. */
	atomic_store(&st->s.status_flags, atomic_load(&listener->s.status_flags));
	atomic_store(&st->s.descriptor_flags, atomic_load(&listener->s.descriptor_flags));
	st->send_buffer = listener->send_buffer;
	st->receive_buffer = listener->receive_buffer;
	st->send_queue = listener->send_queue;
	st->receive_queue = listener->receive_queue;
	st->inline_data = listener->inline_data;
	st->iomap_size = listener->iomap_size;
	st->no_delay = listener->no_delay;
	st->oob_inline = listener->oob_inline;
	st->linger = listener->linger;
	return st;
}

void rs_stream_fail(struct rs_stream *st, int error)
{
	if (st->state == RS_FAILED || st->state == RS_DISCONNECTED)
		return;
	st->state = RS_FAILED;
	st->error = error;
	st->may_receive = st->may_send = false;
	rs_ring(&st->s);
}

int rs_stream_take_error(struct rs_stream *st)
{
	int error = st->error;

	st->error = 0;
	return -error;
}
