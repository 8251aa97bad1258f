/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Credits: how much the peer may send, and how much we may. The few messages that need no credit.
 */
#include "stream.h"

#include <byteswap.h>
#include <endian.h>

void rs_post_message(struct rs_stream *st, struct ibv_send_wr *write, uint32_t msg)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&msg, .length = sizeof(msg) };
	struct ibv_send_wr *first = write, *bad, send = {
		.wr_id = write->wr_id & 0xff,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};

	if (!st->by_send) {
		write->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		write->imm_data = htobe32(msg);
	} else if (write->num_sge) {
		write->opcode = IBV_WR_RDMA_WRITE;
		write->next = &send;
	} else {
		first = &send;
	}
	if (ibv_post_send(st->id->qp, first, &bad))
		rs_stream_fail(st, EIO);
}

/* The same in control slots. */
static void post(struct rs_stream *st, struct ibv_send_wr *wr, uint32_t msg)
{
	st->control_slots -= wr->num_sge ? rs_slots(st) : 1;
	rs_post_message(st, wr, msg);
}

void rs_post_control(struct rs_stream *st, enum rs_control control)
{
	struct ibv_send_wr wr = { .wr_id = control == RS_CONTROL_DISCONNECT ? RS_WORK_DISCONNECT
									    : RS_WORK_CONTROL };

	if (control == RS_CONTROL_DISCONNECT)
		st->disconnect_sent = true;
	post(st, &wr, rs_msg(RS_MSG_CONTROL, control));
}

/* Returns the free half of the receive buffer in the byte order of the peer. */
static struct rs_sge free_half(struct rs_stream *st)
{
	struct rs_sge half = { (uintptr_t)(st->rbuf + st->rx_publish), st->rbuf_mr->rkey, st->rx_half };

	if (st->swap)
		half = (struct rs_sge){ bswap_64(half.addr), bswap_32(half.key), bswap_32(half.length) };
	return half;
}

static bool half_is_free(struct rs_stream *st)
{
	return st->rx_free >= st->rx_half;
}

/* Half of the granted credits are used up. */
static bool credits_are_due(struct rs_stream *st)
{
	uint16_t unused = (uint16_t)(st->rx_granted - st->rx_messages);

	return unused <= st->receive_queue - st->receive_queue / 2;
}

static void send_credits(struct rs_stream *st)
{
	struct rs_sge half, *in_sbuf;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = RS_WORK_CONTROL };

	if (half_is_free(st)) {
		half = free_half(st);
		sge = (struct ibv_sge){ .addr = (uintptr_t)&half, .length = sizeof(half) };
		wr.send_flags = IBV_SEND_INLINE;
		if (st->inline_data < sizeof(half)) {
			/* There are as many places as slots, so the next one is not in use. */
			in_sbuf = (struct rs_sge *)(st->sbuf + st->send_buffer) +
				  st->control_next++ % RS_CONTROL_SLOTS;
			memcpy(in_sbuf, &half, sizeof(half));
			sge.addr = (uintptr_t)in_sbuf;
			sge.lkey = st->sbuf_mr->lkey;
			wr.send_flags = 0;
		}
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = st->peer_table.addr + st->peer_entry * sizeof(struct rs_sge);
		wr.wr.rdma.rkey = st->peer_table.key;
		st->peer_entry = (st->peer_entry + 1) % st->peer_table.length;
		st->rx_window += st->rx_half;
		st->rx_free -= st->rx_half;
		st->rx_publish = st->rx_publish ? 0 : st->rx_half;
	}
	/*
	 * Messages do not wait for the application: their bytes go into a ring, which the halves bound.
	 * So the receive of a message counts as free at once.
	 */
	st->rx_granted = (uint16_t)(st->rx_messages + st->receive_queue);
	post(st, &wr, rs_msg(RS_MSG_CREDIT, st->rx_granted));
}

void rs_give_credits(struct rs_stream *st)
{
	if (st->state != RS_CONNECTED || st->disconnect_sent)
		return;
	if (st->pending_control >= 0 && st->control_slots) {
		rs_post_control(st, (enum rs_control)st->pending_control);
		st->pending_control = -1;
	}
	while (st->state == RS_CONNECTED && !st->disconnect_sent &&
	       st->control_slots >= rs_slots(st) && (half_is_free(st) || credits_are_due(st)))
		send_credits(st);
}

/*
 * An entry of the table is read once, with the message after it. The peer writes it again only
 * after we have filled the half that it names.
 */
void rs_take_credits(struct rs_stream *st, uint32_t granted)
{
	struct rs_sge *entry = &st->table[st->tx_fresh];
	struct rs_window *window = &st->windows[st->tx_fresh];
	uint32_t length = __atomic_load_n(&entry->length, __ATOMIC_ACQUIRE);

	st->tx_granted = (uint16_t)granted;
	if (!length || window->length)
		return;
	*window = (struct rs_window){ entry->addr, entry->key, length };
	__atomic_store_n(&entry->length, 0, __ATOMIC_RELEASE);
	st->tx_fresh = (st->tx_fresh + 1) % RS_TABLE_SIZE;
}
