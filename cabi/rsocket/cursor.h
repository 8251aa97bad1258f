/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a call stands in the application's buffers. */
#ifndef VERBENA_RSOCKET_CURSOR_H
#define VERBENA_RSOCKET_CURSOR_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

struct rs_cursor {
	const struct iovec *iov;
	size_t count;  /* of iov, the one that we are in included */
	size_t offset; /* in the first one */
	size_t left;   /* bytes, in all */
};

static inline struct rs_cursor rs_cursor(const struct iovec *iov, size_t count)
{
	struct rs_cursor c = { iov, count, 0, 0 };

	for (size_t i = 0; i < count; i++)
		c.left += iov[i].iov_len;
	return c;
}

/* Moves on over up to most bytes that lie together, and says where. */
static inline size_t rs_cursor_next(struct rs_cursor *c, size_t most, uint8_t **where)
{
	while (c->count && c->offset == c->iov->iov_len) {
		c->iov++;
		c->count--;
		c->offset = 0;
	}
	if (!c->count)
		return 0;
	size_t here = c->iov->iov_len - c->offset;

	*where = (uint8_t *)c->iov->iov_base + c->offset;
	if (here > most)
		here = most;
	c->offset += here;
	c->left -= here;
	return here;
}

/* From the application to memory; length is at most what is left. */
static inline void rs_cursor_gather(struct rs_cursor *c, void *to, size_t length)
{
	uint8_t *from = NULL, *at = to;

	for (size_t n; length; length -= n, at += n) {
		n = rs_cursor_next(c, length, &from);
		memcpy(at, from, n);
	}
}

/* And back. */
static inline void rs_cursor_scatter(struct rs_cursor *c, const void *from, size_t length)
{
	const uint8_t *at = from;
	uint8_t *to = NULL;

	for (size_t n; length; length -= n, at += n) {
		n = rs_cursor_next(c, length, &to);
		memcpy(to, at, n);
	}
}

#endif
