/* SPDX-License-Identifier: BSD-2-Clause */
/* A position in the buffers of the application. */
#ifndef VERBENA_RSOCKET_CURSOR_H
#define VERBENA_RSOCKET_CURSOR_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

struct rs_cursor {
	const struct iovec *iov;
	size_t count;  /* entries of iov from the current one on */
	size_t offset; /* offset into the current entry */
	size_t left;   /* bytes left in all */
};

static inline struct rs_cursor rs_cursor(const struct iovec *iov, size_t count)
{
	struct rs_cursor c = { iov, count, 0, 0 };

	for (size_t i = 0; i < count; i++)
		c.left += iov[i].iov_len;
	return c;
}

/* Advances by up to most contiguous bytes, and returns where they begin. */
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

/* Copies from the application to memory. length is at most the room left. */
static inline void rs_cursor_gather(struct rs_cursor *c, void *to, size_t length)
{
	uint8_t *from = NULL, *at = to;

	for (size_t n; length; length -= n, at += n) {
		n = rs_cursor_next(c, length, &from);
		memcpy(at, from, n);
	}
}

/* Copies from memory to the application. */
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
