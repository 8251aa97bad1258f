/* SPDX-License-Identifier: BSD-2-Clause */
/* riowrite: RDMA WRITEs into memory that the peer has mapped, without a message. */
#include "stream.h"

static const struct rs_iomap *find(struct rs_stream *st, uint64_t offset)
{
	for (uint32_t i = 0; i < st->iomap_size && st->told; i++) {
		const struct rs_iomap *m = &st->told[i];

		if (offset >= m->offset && offset - m->offset < m->sge.length)
			return m;
	}
	return NULL;
}

static bool direct_ready(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	return (st->tx_slots && st->tx_free) || !st->may_send;
}

/* Writes one piece. The caller holds both locks. */
static int write_direct(struct rs_stream *st, struct rs_cursor *from, uint64_t offset, int flags)
{
	int error = 0;

	for (unsigned piece = 0; !error && from->left; piece++) {
		st->s.ops->progress(&st->s); /* mappings of the peer may have come */
		const struct rs_iomap *map = find(st, offset);

		if (!map)
			break; /* a short count, which may be 0 */
		error = rs_wait_to_send(st, direct_ready, flags);
		if (error)
			break;
		uint64_t into = offset - map->offset;
		uint32_t room = map->sge.length - (uint32_t)into;
		uint32_t n = rs_piece(piece, from->left, room < st->tx_free ? room : st->tx_free);

		rs_fill(st, from, n);
		rs_post_write(st, n, map->sge.addr + into, map->sge.key, false, 0);
		offset += n;
	}
	return error;
}

/* The caller holds send_mu. */
static ssize_t write_locked(struct rs_stream *st, struct rs_cursor from, uint64_t offset, int flags)
{
	size_t count = from.left;
	int error = 0;

	pthread_mutex_lock(&st->s.mu);
	if (st->mappings_untold)
		error = rs_iomap_tell(st, flags);
	if (!error)
		error = write_direct(st, &from, offset, flags);
	pthread_mutex_unlock(&st->s.mu);
	return from.left < count ? (ssize_t)(count - from.left) : error;
}

ssize_t rs_iomap_write(struct rs_socket *s, const void *buf, size_t count, off_t offset, int flags)
{
	struct rs_stream *st = rs_stream(s);
	struct iovec iov = { (void *)buf, count };
	volatile ssize_t n;

	if (s->type != SOCK_STREAM)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&st->send_mu);
	pthread_cleanup_push(rs_unlock, &st->send_mu);
	n = write_locked(st, rs_cursor(&iov, 1), (uint64_t)offset, flags);
	pthread_cleanup_pop(1);
	return n;
}
