/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * riomap and riounmap: memory that the peer may write at an offset. An entry in the iomap table of
 * the peer describes a mapping. It is sent before the next data: rsocket(7).
 */
#include "stream.h"
#include "watch.h"

#include <byteswap.h>
#include <stdlib.h>

#define LOCAL_ONLY (-1)

struct rs_mapping {
	struct rs_mapping *next; /* in the order of the calls */
	struct ibv_mr *mr;
	uint64_t offset;
	int entry; /* index in the peer's table, or LOCAL_ONLY */
	bool told;
};

/* Returns the index of a free entry of the peer's table, or -1. */
static int free_entry(struct rs_stream *st)
{
	for (uint32_t entry = 0; entry < st->peer_iomap_size; entry++) {
		bool taken = false;

		for (struct rs_mapping *m = st->mappings; m && !taken; m = m->next)
			taken = m->entry == (int)entry;
		if (!taken)
			return (int)entry;
	}
	return -1;
}

static void append(struct rs_stream *st, struct rs_mapping *mapping)
{
	struct rs_mapping **end = &st->mappings;

	while (*end)
		end = &(*end)->next;
	*end = mapping;
	if (!mapping->told)
		st->mappings_untold = true;
}

/* Returns 0 or a negative errno. The caller holds s.mu. */
static int add(struct rs_stream *st, void *buf, size_t length, bool remote, uint64_t offset)
{
	if (!st->id->qp || length > UINT32_MAX)
		return -EINVAL;
	int entry = remote ? free_entry(st) : LOCAL_ONLY;

	if (remote && entry < 0)
		return -ENOMEM;
	struct rs_mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return -ENOMEM;
	int access = IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0);

	*mapping = (struct rs_mapping){ .mr = ibv_reg_mr(st->id->qp->pd, buf, length, access),
					.offset = offset,
					.entry = entry,
					.told = !remote };
	if (!mapping->mr) {
		int error = errno;

		free(mapping);
		return -error;
	}
	append(st, mapping);
	return 0;
}

off_t rs_iomap_add(struct rs_socket *s, void *buf, size_t length, int prot, off_t *offset)
{
	if (s->type != SOCK_STREAM)
		return -EOPNOTSUPP;
	if (prot & ~PROT_WRITE || *offset < -1)
		return -EINVAL;
	if (*offset == -1)
		*offset = (off_t)(uintptr_t)buf;
	pthread_mutex_lock(&s->mu);
	int error = add(rs_stream(s), buf, length, prot & PROT_WRITE, (uint64_t)*offset);

	pthread_mutex_unlock(&s->mu);
	return error;
}

int rs_iomap_remove(struct rs_socket *s, void *buf, size_t length)
{
	struct rs_stream *st = rs_stream(s);
	int error = -EINVAL;

	if (s->type != SOCK_STREAM)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&s->mu);
	for (struct rs_mapping **p = &st->mappings; *p; p = &(*p)->next) {
		struct rs_mapping *mapping = *p;

		if (mapping->mr->addr != buf || mapping->mr->length != length)
			continue;
		error = -ibv_dereg_mr(mapping->mr);
		if (!error) {
			*p = mapping->next;
			free(mapping);
		}
		break;
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}

void rs_iomap_free(struct rs_stream *st)
{
	while (st->mappings) {
		struct rs_mapping *mapping = st->mappings;

		st->mappings = mapping->next;
		ibv_dereg_mr(mapping->mr);
		free(mapping);
	}
}

static bool entry_ready(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);

	return (st->tx_slots >= rs_slots(st) && st->tx_free >= sizeof(struct rs_iomap)) ||
	       !st->may_send;
}

static struct rs_mapping *first_untold(struct rs_stream *st)
{
	struct rs_mapping *m = st->mappings;

	while (m && m->told)
		m = m->next;
	return m;
}

/*
 * The message of an entry takes no credit: the receiver stores nothing, and that of rdma-core does
 * not count it when it grants more.
 */
int rs_iomap_tell(struct rs_stream *st, int flags)
{
	struct rs_mapping *mapping;

	for (;;) {
		int error = rs_wait_to_send(st, entry_ready, flags);

		if (error)
			return error;
		mapping = first_untold(st); /* riounmap may have removed it meanwhile */
		if (!mapping)
			break;
		struct rs_iomap entry = { mapping->offset,
					  { (uintptr_t)mapping->mr->addr, mapping->mr->rkey,
					    (uint32_t)mapping->mr->length } };

		if (st->swap)
			entry = (struct rs_iomap){ bswap_64(entry.offset),
						   { bswap_64(entry.sge.addr),
						     bswap_32(entry.sge.key),
						     bswap_32(entry.sge.length) } };
		struct iovec iov = { &entry, sizeof(entry) };
		struct rs_cursor from = rs_cursor(&iov, 1);

		rs_fill(st, &from, sizeof(entry));
		rs_post_write(st, sizeof(entry),
			      st->peer_iomaps + (uint64_t)mapping->entry * sizeof(entry),
			      st->peer_table.key, true,
			      rs_msg(RS_MSG_IOMAP, (uint32_t)mapping->entry));
		mapping->told = true;
	}
	st->mappings_untold = false;
	return 0;
}

/* The message of an entry says that the entry is complete; only then is it read. */
void rs_iomap_told(struct rs_stream *st, uint32_t entry)
{
	if (entry < st->iomap_size)
		st->told[entry] = st->iomaps[entry];
}
