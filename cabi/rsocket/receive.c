/* SPDX-License-Identifier: BSD-2-Clause */
/* rrecv and its like. */
#include "stream.h"
#include "watch.h"

static bool readable(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	return st->rx_ready || (!st->may_receive && !rs_opening(st));
}

/* Returns why there is nothing to read: 0 is the end of the stream. */
static int why_nothing(struct rs_stream *st)
{
	if (st->state == RS_IDLE || st->state == RS_LISTENING)
		return -ENOTCONN;
	return rs_stream_take_error(st);
}

/* Copies the bytes that are there. The caller holds both locks. */
static void take(struct rs_stream *st, struct rs_cursor *to, bool peek)
{
	const uint32_t size = 2 * st->rx_half;
	uint32_t head = st->rx_head, ready = st->rx_ready;

	while (to->left && ready) {
		uint32_t n = size - head;

		if (n > ready)
			n = ready;
		if (n > to->left)
			n = (uint32_t)to->left;
		pthread_mutex_unlock(&st->s.mu); /* senders go on during the copy */
		rs_cursor_scatter(to, st->rbuf + head, n);
		pthread_mutex_lock(&st->s.mu);
		head = (head + n) % size;
		ready -= n;
		if (!peek) {
			st->rx_head = head;
			st->rx_ready -= n;
			st->rx_free += n;
			ready = st->rx_ready; /* more may have come */
			rs_give_credits(st);
		}
	}
}

/* The caller holds receive_mu. */
static ssize_t receive_locked(struct rs_stream *st, struct rs_cursor to, int flags)
{
	size_t length = to.left;
	int error;

	pthread_mutex_lock(&st->s.mu);
	do {
		error = rs_wait(&st->s, readable, rs_nonblocking(&st->s, flags), RS_FOREVER);
		if (error)
			break;
		if (!st->rx_ready) {
			error = to.left == length ? why_nothing(st) : 0;
			break;
		}
		take(st, &to, flags & MSG_PEEK);
	} while (to.left && (flags & MSG_WAITALL) && !(flags & MSG_PEEK));
	pthread_mutex_unlock(&st->s.mu);
	return to.left < length ? (ssize_t)(length - to.left) : error;
}

ssize_t rs_stream_receive(struct rs_socket *s, struct msghdr *msg, int flags)
{
	struct rs_stream *st = rs_stream(s);
	struct rs_cursor to = rs_cursor(msg->msg_iov, msg->msg_iovlen);
	volatile ssize_t n;

	msg->msg_namelen = 0; /* a stream has one peer: no address */
	if (flags & MSG_OOB)
		return -EINVAL;
	if (!to.left)
		return 0;
	pthread_mutex_lock(&st->receive_mu);
	pthread_cleanup_push(rs_unlock, &st->receive_mu);
	n = receive_locked(st, to, flags);
	pthread_cleanup_pop(1);
	return n;
}
