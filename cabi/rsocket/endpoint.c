/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of a stream, its buffers, and the private data in which both sides describe them.
 */
#include "defaults.h"
#include "stream.h"

#include <byteswap.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Allocates whole pages. With ibv_fork_init(3) a forked child does not see the pages of a region,
 * so no other data may lie in them. NULL: ENOMEM.
 */
static void *pages(size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory;

	length = (length + page - 1) / page * page;
	if (posix_memalign(&memory, page, length))
		return NULL;
	return memset(memory, 0, length);
}

static uint32_t clamp(uint32_t n, uint32_t least, uint32_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* Returns 0 or a positive errno, as the functions below. */
static int fit_queues(struct rs_stream *st)
{
	struct ibv_device_attr device;
	int error = ibv_query_device(st->id->verbs, &device);

	if (error)
		return error;
	uint32_t most = clamp((uint32_t)device.max_qp_wr, RS_QUEUE_MIN, RS_QUEUE_MAX);

	st->send_queue = clamp(st->send_queue, RS_QUEUE_MIN, most);
	st->receive_queue = clamp(st->receive_queue, RS_QUEUE_MIN, most);
	st->receives = st->receive_queue;
	st->by_send = st->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	if (st->by_send) {
		/* Control messages and mappings come without credits. */
		st->receives += 2 * RS_CONTROL_SLOTS + st->iomap_size;
		if (st->inline_data < sizeof(*st->messages))
			st->inline_data = sizeof(*st->messages);
	}
	return 0;
}

static int create_cq(struct rs_stream *st)
{
	st->events = ibv_create_comp_channel(st->id->verbs);
	if (!st->events)
		return errno;
	st->cq = ibv_create_cq(st->id->verbs, (int)(st->send_queue + st->receives), st, st->events, 0);
	return st->cq ? 0 : errno;
}

static int create_qp(struct rs_stream *st)
{
	struct ibv_qp_init_attr init = {
		.qp_context = st,
		.send_cq = st->cq,
		.recv_cq = st->cq,
		.cap = {
			.max_send_wr = st->send_queue,
			.max_recv_wr = st->receives,
			.max_send_sge = 2, /* a gather list of two: sbuf wraps around */
			.max_recv_sge = 1,
			.max_inline_data = st->inline_data,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(st->id, NULL, &init))
		return errno;
	st->inline_data = init.cap.max_inline_data;
	return 0;
}

static int create_buffers(struct rs_stream *st)
{
	struct ibv_pd *pd = st->id->qp->pd;
	size_t table = RS_TABLE_SIZE * sizeof(struct rs_sge) + st->iomap_size * sizeof(struct rs_iomap);
	/* The room behind sbuf is for table entries of the peer that do not fit inline. */
	size_t sbuf = st->send_buffer + RS_CONTROL_SLOTS * sizeof(struct rs_sge);

	size_t rbuf;

	st->rx_half = st->receive_buffer / 2;
	rbuf = 2 * (size_t)st->rx_half;
	if (st->by_send)
		rbuf += sizeof(*st->messages) - 1 + st->receives * sizeof(*st->messages);
	st->sbuf = pages(sbuf);
	st->rbuf = pages(rbuf);
	st->table = pages(table);
	st->told = calloc(st->iomap_size + 1, sizeof(*st->told));
	if (!st->sbuf || !st->rbuf || !st->table || !st->told)
		return ENOMEM;
	/* The messages lie behind both halves, at the next aligned address. */
	st->messages =
		(uint32_t *)(st->rbuf + (2 * (size_t)st->rx_half + sizeof(*st->messages) - 1) /
						sizeof(*st->messages) * sizeof(*st->messages));
	st->iomaps = (struct rs_iomap *)(st->table + RS_TABLE_SIZE);
	st->sbuf_mr = ibv_reg_mr(pd, st->sbuf, sbuf, IBV_ACCESS_LOCAL_WRITE);
	st->rbuf_mr = st->sbuf_mr ? ibv_reg_mr(pd, st->rbuf, rbuf,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
				  : NULL;
	st->table_mr = st->rbuf_mr ? ibv_reg_mr(pd, st->table, table,
						IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
				   : NULL;
	return st->table_mr ? 0 : errno;
}

int rs_endpoint_open(struct rs_stream *st)
{
	int error = fit_queues(st);

	if (!error)
		error = create_cq(st);
	if (!error)
		error = create_qp(st);
	if (!error)
		error = create_buffers(st);
	if (error) {
		rs_endpoint_close(st);
		return error;
	}
	/*
	 * The peer may write the first half from the start. The first credit grants it the second one.
	 */
	st->rx_window = st->rx_free = st->rx_publish = st->rx_half;
	st->rx_granted = (uint16_t)st->receive_queue;
	st->tx_free = st->send_buffer;
	st->tx_slots = st->send_queue - RS_CONTROL_SLOTS;
	st->control_slots = RS_CONTROL_SLOTS;
	rs_post_receives(st, st->receives);
	return 0;
}

void rs_endpoint_close(struct rs_stream *st)
{
	if (st->id->qp)
		rdma_destroy_qp(st->id);
	if (st->cq)
		ibv_destroy_cq(st->cq);
	if (st->events)
		ibv_destroy_comp_channel(st->events);
	if (st->table_mr)
		ibv_dereg_mr(st->table_mr);
	if (st->rbuf_mr)
		ibv_dereg_mr(st->rbuf_mr);
	if (st->sbuf_mr)
		ibv_dereg_mr(st->sbuf_mr);
	st->cq = NULL;
	st->events = NULL;
	st->table_mr = st->rbuf_mr = st->sbuf_mr = NULL;
	free(st->table);
	free(st->rbuf);
	free(st->sbuf);
	free(st->told);
	st->table = NULL;
	st->rbuf = st->sbuf = NULL;
	st->told = NULL;
}

static const uint8_t our_order = __BYTE_ORDER == __BIG_ENDIAN ? RS_CONN_BIG_ENDIAN : 0;

void rs_conn_data_ours(struct rs_stream *st, struct rs_conn_data *ours)
{
	*ours = (struct rs_conn_data){
		.version = RS_CONN_VERSION,
		.flags = RS_CONN_IOMAP | our_order,
		.credits = htobe16((uint16_t)st->receive_queue),
		.iomap_size = rs_scale(st->iomap_size),
		.table = {
			.addr = htobe64((uintptr_t)st->table),
			.key = htobe32(st->table_mr->rkey),
			.length = htobe32(RS_TABLE_SIZE),
		},
		.buffer = {
			.addr = htobe64((uintptr_t)st->rbuf),
			.key = htobe32(st->rbuf_mr->rkey),
			.length = htobe32(st->rx_half),
		},
	};
}

static struct rs_sge host_order(const struct rs_sge *wire)
{
	return (struct rs_sge){ be64toh(wire->addr), be32toh(wire->key), be32toh(wire->length) };
}

bool rs_conn_data_peers(struct rs_stream *st, const void *data, size_t length)
{
	struct rs_conn_data peers;

	if (!data || length < sizeof(peers))
		return false;
	memcpy(&peers, data, sizeof(peers));
	if (peers.version != RS_CONN_VERSION)
		return false;
	st->peer_table = host_order(&peers.table);
	if (st->peer_table.length < RS_TABLE_SIZE) /* one entry in use and one waiting */
		return false;
	st->swap = (peers.flags & RS_CONN_BIG_ENDIAN) != our_order;
	st->peer_entry = 1; /* entry 0 is peers.buffer's counterpart: our first half */
	if (peers.flags & RS_CONN_IOMAP) {
		st->peer_iomaps = st->peer_table.addr + st->peer_table.length * sizeof(struct rs_sge);
		st->peer_iomap_size = rs_unscale(peers.iomap_size);
	}
	struct rs_sge buffer = host_order(&peers.buffer);

	st->windows[0] = (struct rs_window){ buffer.addr, buffer.key, buffer.length };
	st->tx_window = 0;
	st->tx_fresh = 1;
	st->tx_granted = be16toh(peers.credits);
	return true;
}
