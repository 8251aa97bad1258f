/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rlisten and raccept. The service accepts requests as they come, as TCP does below accept(2): the
 * connection is ready before the application calls raccept.
 */
#include "index.h"
#include "service.h"
#include "stream.h"
#include "watch.h"

#include <netinet/in.h>
#include <string.h>

/* The default of net.core.somaxconn: listen(2). */
#define BACKLOG_MAX 4096

/*
 * How many requests may wait while the service is busy. Further ones are dropped, and their peers
 * repeat them only after seconds.
 */
#define REQUESTS_WAITING 1024

/*
 * How many connections may be in setup. They do not count against the backlog, because their peers
 * may never answer. It is four times the number that the connection manager admits of peers that
 * have not shown that they exist.
 */
#define COMING_MAX 64

#define RNR_RETRY_FOREVER 7

/* Watches for requests while there is room for them. The caller holds s.mu. */
static int look_for_requests(struct rs_stream *st)
{
	bool full = st->queued >= st->backlog || st->coming >= COMING_MAX;

	if (full == st->paused)
		return 0;
	st->paused = full;
	if (!full)
		return rs_service_add(&st->s, st->channel->fd, 0);
	rs_service_remove(st->channel->fd);
	return 0;
}

static int listen_first(struct rs_stream *st)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)st->s.domain };

	if (!rs_addr_length(rdma_get_local_addr(st->id)) &&
	    rdma_bind_addr(st->id, (struct sockaddr *)&any))
		return -errno;
	if (rdma_listen(st->id, REQUESTS_WAITING))
		return -errno;
	st->state = RS_LISTENING;
	st->paused = true;
	return look_for_requests(st);
}

int rs_stream_listen(struct rs_socket *s, int backlog)
{
	struct rs_stream *st = rs_stream(s);
	int error;

	pthread_mutex_lock(&s->mu);
	st->backlog = backlog < 1 ? 1 : backlog > BACKLOG_MAX ? BACKLOG_MAX : backlog;
	if (st->state == RS_LISTENING)
		error = look_for_requests(st);
	else
		error = st->state == RS_IDLE ? listen_first(st) : -EINVAL;
	pthread_mutex_unlock(&s->mu);
	return error;
}

/* Returns 0, or the positive errno that explains the refusal. */
static int grant(struct rs_stream *st, const void *data, size_t length)
{
	struct rs_conn_data ours;
	struct rdma_conn_param param = {
		.private_data = &ours,
		.private_data_len = sizeof(ours),
		.flow_control = 1,
		.rnr_retry_count = RNR_RETRY_FOREVER,
	};

	if (!rs_conn_data_peers(st, data, length))
		return EPROTO;
	int error = rs_endpoint_open(st);

	if (error)
		return error;
	param.responder_resources = st->by_send; /* iWARP may ask to READ while it connects */
	st->state = RS_ACCEPTING;
	rs_conn_data_ours(st, &ours);
	error = -rs_index_insert(&st->s, st->channel->fd);
	if (error)
		return error;
	if (!rdma_accept(st->id, &param))
		error = -rs_service_add(&st->s, st->channel->fd, 0);
	else
		error = errno;
	if (error)
		rs_index_remove(&st->s);
	return error;
}

/* Adds to the connections in setup or in the queue. The caller holds listener->s.mu. */
static void count(struct rs_stream *listener, int coming, int queued)
{
	listener->coming += coming;
	listener->queued += queued;
	if (!atomic_load(&listener->s.closing))
		look_for_requests(listener);
}

static bool take_place(struct rs_stream *listener)
{
	pthread_mutex_lock(&listener->s.mu);
	bool open = !atomic_load(&listener->s.closing);

	if (open)
		count(listener, 1, 0);
	pthread_mutex_unlock(&listener->s.mu);
	return open;
}

static void give_place(struct rs_stream *listener)
{
	pthread_mutex_lock(&listener->s.mu);
	count(listener, -1, 0);
	pthread_mutex_unlock(&listener->s.mu);
}

/* Takes a connection off its listener. */
static void leave_listener(struct rs_stream *st)
{
	struct rs_stream *listener = st->listener;

	st->listener = NULL;
	give_place(listener);
	rs_put(&listener->s);
}

void rs_listen_request(struct rs_stream *listener, struct rdma_cm_id *id, const void *data,
		       size_t length)
{
	if (!take_place(listener)) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	struct rs_stream *st = rs_stream_for_request(listener, id);

	if (!st) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		give_place(listener);
		return;
	}
	pthread_mutex_lock(&st->s.mu);
	int error = grant(st, data, length);

	pthread_mutex_unlock(&st->s.mu);
	if (error) {
		rdma_reject(id, NULL, 0);
		leave_listener(st);
	}
	rs_put(&st->s); /* the index has it unless it was refused */
}

void rs_listen_settled(struct rs_stream *st)
{
	pthread_mutex_lock(&st->s.mu);
	struct rs_stream *listener = rs_opening(st) ? NULL : st->listener;
	bool failed = !st->established; /* the application learns by reading that one broke */

	if (listener && !failed)
		st->listener = NULL;
	pthread_mutex_unlock(&st->s.mu);
	if (!listener)
		return;
	if (failed) { /* no other thread knows it */
		leave_listener(st);
		rs_index_remove(&st->s);
		return;
	}
	pthread_mutex_lock(&listener->s.mu);
	bool open = !atomic_load(&listener->s.closing);

	count(listener, -1, open);
	if (open) {
		rs_hold(&st->s);
		if (listener->tail)
			listener->tail->next = st;
		else
			listener->head = st;
		listener->tail = st;
		rs_ring(&listener->s);
	}
	pthread_mutex_unlock(&listener->s.mu);
	if (!open) {
		st->linger = (struct linger){ 1, 0 }; /* nothing was sent: do not wait for it */
		rs_stream_close(&st->s);
		rs_index_remove(&st->s);
	}
	rs_put(&listener->s);
}

void rs_listen_close(struct rs_stream *listener)
{
	pthread_mutex_lock(&listener->s.mu);
	struct rs_stream *st = listener->head;

	listener->head = listener->tail = NULL;
	pthread_mutex_unlock(&listener->s.mu);
	while (st) {
		struct rs_stream *next = st->next;

		atomic_store(&st->s.closing, true);
		rs_stream_close(&st->s);
		rs_index_remove(&st->s);
		rs_put(&st->s);
		st = next;
	}
}

static bool may_accept(struct rs_socket *s)
{
	return rs_stream(s)->head || rs_stream(s)->state != RS_LISTENING;
}

int rs_stream_accept(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	struct rs_stream *listener = rs_stream(s), *st = NULL;
	int error;

	pthread_mutex_lock(&s->mu);
	error = listener->state != RS_LISTENING
			? -EINVAL
			: rs_wait(s, may_accept, rs_nonblocking(s, 0), RS_FOREVER);
	if (!error && listener->head) {
		st = listener->head;
		listener->head = st->next;
		if (!listener->head)
			listener->tail = NULL;
		st->next = NULL;
		count(listener, 0, -1);
	} else if (!error) {
		error = -EINVAL; /* it was shut down: accept(2) */
	}
	pthread_mutex_unlock(&s->mu);
	if (!st)
		return error;
	st->connect_told = true;
	if (addr && length)
		rs_copy_addr(rdma_get_peer_addr(st->id), addr, length);
	int number = st->s.number;

	rs_put(&st->s); /* the index has it */
	return number;
}
