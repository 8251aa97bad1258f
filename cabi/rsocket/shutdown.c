/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a stream. A message notifies the peer that a half is shut. The queue pair is destroyed
 * only after everything sent has been acknowledged: no other process would retransmit it.
 */
#include "keepalive.h"
#include "service.h"
#include "stream.h"
#include "watch.h"

/*
 * How long a close without SO_LINGER waits for a peer that reads nothing: the default of
 * net.ipv4.tcp_fin_timeout.
 */
#define LINGER_SECONDS 60

static bool all_acknowledged(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	return st->state != RS_CONNECTED ||
	       (st->pending_control < 0 && st->control_slots == RS_CONTROL_SLOTS &&
		st->tx_slots == st->send_queue - RS_CONTROL_SLOTS);
}

static int64_t linger_until(struct rs_stream *st)
{
	return rs_now_us() +
	       (int64_t)(st->linger.l_onoff ? st->linger.l_linger : LINGER_SECONDS) * 1000000;
}

static void tell(struct rs_stream *st, enum rs_control control)
{
	if (st->disconnect_sent || st->pending_control == RS_CONTROL_DISCONNECT)
		return;
	st->pending_control = control;
	rs_give_credits(st);
	rs_ring(&st->s);
}

/* Shuts halves of a connected stream. The caller holds s.mu. */
static void shut(struct rs_stream *st, int how)
{
	bool sent = st->may_send;

	if (how != SHUT_WR)
		st->may_receive = false;
	if (how != SHUT_RD)
		st->may_send = false;
	if (st->may_send)
		return; /* the peer may still write; nothing reads it */
	if (!st->may_receive)
		tell(st, RS_CONTROL_DISCONNECT);
	else if (sent)
		tell(st, RS_CONTROL_SHUTDOWN);
}

/* Waits until the data sent has arrived. A signal does not end the wait, which would lose data. */
static void linger(struct rs_stream *st)
{
	int64_t end = linger_until(st);

	while (rs_wait(&st->s, all_acknowledged, false, end) == -EINTR)
		;
}

static void stop_listening(struct rs_stream *st)
{
	st->state = RS_IDLE;
	rs_service_remove(st->channel->fd);
	rs_ring(&st->s);
}

int rs_stream_shutdown(struct rs_socket *s, int how)
{
	struct rs_stream *st = rs_stream(s);
	int error = 0;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	pthread_mutex_lock(&s->mu);
	switch (st->state) {
	case RS_CONNECTED:
		shut(st, how);
		if (!st->may_send)
			linger(st);
		if (st->state == RS_DISCONNECTED)
			rdma_disconnect(st->id);
		break;
	case RS_LISTENING: /* raccept fails with EINVAL, as with TCP */
		stop_listening(st);
		break;
	case RS_DISCONNECTED:
	case RS_FAILED: /* both halves are shut */
		break;
	default:
		error = -ENOTCONN;
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}

void rs_stream_close(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	rs_keepalive_stop(st);
	pthread_mutex_lock(&s->mu);
	if (st->state == RS_CONNECTED) {
		bool abort = st->linger.l_onoff && !st->linger.l_linger;

		shut(st, SHUT_RDWR);
		if (!abort)
			linger(st);
	}
	if (st->state >= RS_CONNECTED)
		rdma_disconnect(st->id); /* fails where there is nothing to disconnect */
	else if (st->state == RS_LISTENING)
		stop_listening(st);
	else
		rs_stream_fail(st, ECONNABORTED);
	rs_ring(s);
	pthread_mutex_unlock(&s->mu);
	rs_service_remove(st->channel->fd);
	rs_listen_close(st);
}
