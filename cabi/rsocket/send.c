/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsend, rsendto, rsendmsg, rwrite and rwritev. They copy the data to sbuf, so that the call need
 * not wait for its delivery.
 */
#include "defaults.h"
#include "stream.h"
#include "watch.h"

/*
 * The pieces of a call grow: the first is on the wire while the next is copied, and a long transfer
 * takes few messages.
 */
#define FIRST_PIECE 4096u
#define LARGEST_PIECE 65536u

uint32_t rs_piece(unsigned piece, size_t left, uint32_t room)
{
	uint32_t size = piece < 2 ? FIRST_PIECE << 2 * piece : LARGEST_PIECE;

	if (size > room)
		size = room;
	return left < size ? (uint32_t)left : size;
}

void rs_fill(struct rs_stream *st, struct rs_cursor *from, uint32_t length)
{
	uint32_t to_end = st->send_buffer - st->tx_head;
	uint32_t first = length < to_end ? length : to_end;

	rs_cursor_gather(from, st->sbuf + st->tx_head, first);
	rs_cursor_gather(from, st->sbuf, length - first);
}

void rs_post_write(struct rs_stream *st, uint32_t length, uint64_t addr, uint32_t key, bool has_msg,
		   uint32_t msg)
{
	uint32_t to_end = st->send_buffer - st->tx_head;
	uint32_t first = length < to_end ? length : to_end;
	struct ibv_sge sges[2] = {
		{ .addr = (uintptr_t)(st->sbuf + st->tx_head), .length = first, .lkey = st->sbuf_mr->lkey },
		{ .addr = (uintptr_t)st->sbuf, .length = length - first, .lkey = st->sbuf_mr->lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)length << 8 | RS_WORK_DATA,
		.sg_list = sges,
		.num_sge = length > first ? 2 : 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = length <= st->inline_data ? IBV_SEND_INLINE : 0,
		.wr.rdma = { .remote_addr = addr, .rkey = key },
	}, *bad;

	st->tx_slots -= has_msg ? rs_slots(st) : 1;
	st->tx_free -= length;
	st->tx_head = (st->tx_head + length) % st->send_buffer;
	if (has_msg)
		rs_post_message(st, &wr, msg);
	else if (ibv_post_send(st->id->qp, &wr, &bad))
		rs_stream_fail(st, EIO);
}

static int why_not(struct rs_stream *st)
{
	int error = rs_stream_take_error(st);

	if (error)
		return error;
	switch (st->state) {
	case RS_IDLE:
	case RS_LISTENING:
		return -ENOTCONN;
	case RS_DISCONNECTED: /* the peer shut it, unless we did */
		return st->disconnect_sent ? -EPIPE : -ECONNRESET;
	default:
		return -EPIPE;
	}
}

static bool not_opening(struct rs_socket *s)
{
	return !rs_opening(rs_stream(s));
}

int rs_wait_to_send(struct rs_stream *st, bool (*ready)(struct rs_socket *s), int flags)
{
	int error = 0;

	if (rs_opening(st))
		error = rs_wait(&st->s, not_opening, rs_nonblocking(&st->s, flags), RS_FOREVER);
	if (!error && st->may_send)
		error = rs_wait(&st->s, ready, rs_nonblocking(&st->s, flags), RS_FOREVER);
	return error ? error : st->may_send ? 0 : why_not(st);
}

static bool data_ready(struct rs_socket *s)
{
	return rs_can_send(rs_stream(s)) || !rs_stream(s)->may_send;
}

static void post_data(struct rs_stream *st, uint32_t length)
{
	struct rs_window *window = &st->windows[st->tx_window];
	uint64_t addr = window->addr;

	window->addr += length;
	window->length -= length;
	if (!window->length)
		st->tx_window = (st->tx_window + 1) % RS_TABLE_SIZE;
	st->tx_messages++;
	rs_post_write(st, length, addr, window->key, true, rs_msg(RS_MSG_DATA, length));
}

static uint32_t room(struct rs_stream *st)
{
	uint32_t window = st->windows[st->tx_window].length;

	return window < st->tx_free ? window : st->tx_free;
}

/* The caller holds send_mu. */
static ssize_t send_locked(struct rs_stream *st, struct rs_cursor from, int flags)
{
	struct rs_socket *s = &st->s;
	size_t length = from.left;
	int error = 0;

	pthread_mutex_lock(&s->mu);
	if (st->mappings_untold)
		error = rs_iomap_tell(st, flags);
	for (unsigned piece = 0; !error && from.left; piece++) {
		error = rs_wait_to_send(st, data_ready, flags);
		if (error)
			break;
		uint32_t n = rs_piece(piece, from.left, room(st));

		pthread_mutex_unlock(&s->mu); /* receivers go on during the copy */
		rs_fill(st, &from, n);
		pthread_mutex_lock(&s->mu);
		if (st->may_send) {
			post_data(st, n);
		} else {
			from.left += n;
			error = why_not(st);
		}
	}
	if (!length && !error && !rs_opening(st) && !st->may_send)
		error = why_not(st);
	pthread_mutex_unlock(&s->mu);
	return from.left < length ? (ssize_t)(length - from.left) : error;
}

ssize_t rs_stream_send(struct rs_socket *s, const struct msghdr *msg, int flags)
{
	struct rs_stream *st = rs_stream(s);
	volatile ssize_t n;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (msg->msg_name)
		return -EISCONN;
	pthread_mutex_lock(&st->send_mu);
	pthread_cleanup_push(rs_unlock, &st->send_mu);
	n = send_locked(st, rs_cursor(msg->msg_iov, msg->msg_iovlen), flags);
	pthread_cleanup_pop(1);
	return n;
}
