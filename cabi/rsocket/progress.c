/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions, and the poll(2) events that follow from them. */
#include "../libibverbs/sleep.h"
#include "defaults.h"
#include "stream.h"
#include "watch.h"

#include <arpa/inet.h>
#include <poll.h>

/* Completions per call, and calls before other sockets get their turn. */
#define BATCH 16
#define BATCHES 256

void rs_post_receives(struct rs_stream *st, unsigned count)
{
	struct ibv_recv_wr wrs[BATCH], *bad;
	struct ibv_sge sges[BATCH];

	/* Posts receives without memory: only the immediate data counts. */
	while (count) {
		unsigned n = count < BATCH ? count : BATCH;

		for (unsigned i = 0; i < n; i++) {
			wrs[i] = (struct ibv_recv_wr){ .wr_id = RS_WORK_RECEIVE,
						       .next = i + 1 < n ? &wrs[i + 1] : NULL };
			if (!st->by_send)
				continue;
			wrs[i].wr_id |= (uint64_t)st->next_message << 8;
			sges[i] = (struct ibv_sge){ (uintptr_t)&st->messages[st->next_message],
						    sizeof(*st->messages), st->rbuf_mr->lkey };
			wrs[i].sg_list = &sges[i];
			wrs[i].num_sge = 1;
			st->next_message = (st->next_message + 1) % st->receives;
		}
		int error = ibv_post_recv(st->id->qp, wrs, &bad);

		if (error) {
			rs_stream_fail(st, error);
			return;
		}
		count -= n;
	}
}

static void peer_gone(struct rs_stream *st)
{
	st->may_receive = st->may_send = false;
	if (st->state == RS_CONNECTED)
		st->state = RS_DISCONNECTED;
}

static void take_control(struct rs_stream *st, uint32_t control)
{
	switch (control) {
	case RS_CONTROL_SHUTDOWN:
		st->may_receive = false;
		if (!st->may_send) /* both halves are shut */
			peer_gone(st);
		break;
	case RS_CONTROL_DISCONNECT:
		peer_gone(st);
		break;
	default: /* RS_CONTROL_KEEPALIVE and unknown ones */
		break;
	}
}

static void take_message(struct rs_stream *st, uint32_t msg)
{
	uint32_t value = rs_msg_value(msg);

	switch (rs_msg_type(msg)) {
	case RS_MSG_DATA:
		if (value > st->rx_window) { /* the peer wrote outside its half */
			rs_stream_fail(st, EPROTO);
			break;
		}
		st->rx_window -= value;
		st->rx_ready += value;
		st->rx_messages++;
		break;
	case RS_MSG_CREDIT:
		rs_take_credits(st, value);
		break;
	case RS_MSG_IOMAP:
		rs_iomap_told(st, value);
		break;
	case RS_MSG_CONTROL:
		take_control(st, value);
		break;
	default:
		rs_stream_fail(st, EPROTO);
	}
}

/* Returns the errno that the application sees for a failed send. */
static int status_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ETIMEDOUT;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_WR_FLUSH_ERR:
		return ECONNRESET;
	default:
		return EIO;
	}
}

static void take_completion(struct rs_stream *st, const struct ibv_wc *wc)
{
	switch ((enum rs_work)(wc->wr_id & 0xff)) {
	case RS_WORK_RECEIVE:
		/*
		 * A flush has its cause elsewhere: an event of the connection manager, or a failed send,
		 * names it.
		 */
		if (wc->status == IBV_WC_WR_FLUSH_ERR)
			return;
		st->owed_receives++;
		if (wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_WITH_IMM))
			take_message(st, ntohl(wc->imm_data));
		else if (wc->status == IBV_WC_SUCCESS && st->by_send &&
			 wc->byte_len == sizeof(*st->messages))
			take_message(st, st->messages[wc->wr_id >> 8]);
		break;
	case RS_WORK_DATA:
		st->tx_slots++;
		st->tx_free += (uint32_t)(wc->wr_id >> 8);
		break;
	case RS_WORK_CONTROL:
		st->control_slots++;
		break;
	case RS_WORK_DISCONNECT:
		st->control_slots++;
		if (st->state == RS_CONNECTED)
			st->state = RS_DISCONNECTED;
		break;
	}
	if (wc->status != IBV_WC_SUCCESS)
		rs_stream_fail(st, status_errno(wc->status));
}

void rs_stream_progress(struct rs_socket *s)
{
	struct rs_stream *st = rs_stream(s);
	struct ibv_wc wc[BATCH];
	bool changed = false;
	int n = 0;

	/* Before the connection is established the meaning of messages is unknown. */
	if (st->state < RS_CONNECTED || !st->cq)
		return;
	rs_give_credits(st);
	for (int i = 0; i < BATCHES && (n = ibv_poll_cq(st->cq, BATCH, wc)) > 0; i++) {
		for (int k = 0; k < n; k++)
			take_completion(st, &wc[k]);
		changed = true;
		if (st->state == RS_CONNECTED)
			rs_post_receives(st, st->owed_receives);
		st->owed_receives = 0;
		if (n < BATCH)
			break;
	}
	if (n < 0)
		rs_stream_fail(st, EIO);
	if (!changed)
		return;
	rs_give_credits(st);
	rs_ring(s);
}

bool rs_can_send(struct rs_stream *st)
{
	uint32_t least = st->send_buffer < RS_SEND_LOW_WATER ? st->send_buffer : RS_SEND_LOW_WATER;

	uint16_t spare = st->by_send ? RS_CONTROL_SLOTS : 0;

	return st->tx_slots >= rs_slots(st) && st->tx_free >= least &&
	       (uint16_t)(st->tx_granted - st->tx_messages) > spare &&
	       st->windows[st->tx_window].length;
}

short rs_stream_events(struct rs_socket *s, short wanted)
{
	struct rs_stream *st = rs_stream(s);
	const short in = wanted & (POLLIN | POLLRDNORM), out = wanted & (POLLOUT | POLLWRNORM);

	switch (st->state) {
	case RS_IDLE:
		return out | POLLHUP; /* as Linux answers for a socket that was never connected */
	case RS_LISTENING:
		return st->head ? in : 0;
	case RS_RESOLVING_ADDR:
	case RS_RESOLVING_ROUTE:
	case RS_CONNECTING:
	case RS_ACCEPTING:
		return 0;
	case RS_CONNECTED:
		return (short)((st->rx_ready || !st->may_receive ? in : 0) |
			       (rs_can_send(st) || !st->may_send ? out : 0) |
			       (!st->may_receive ? wanted & POLLRDHUP : 0));
	case RS_DISCONNECTED: /* neither call would block */
		/*
		 * POLLHUP is not reported while bytes wait: programs close at POLLHUP, and would lose them.
		 */
		return (short)(in | out | (wanted & POLLRDHUP) | (st->rx_ready ? 0 : POLLHUP));
	case RS_FAILED:
		return (short)(in | out | (wanted & POLLRDHUP) | POLLHUP | POLLERR);
	}
	return POLLERR;
}

int rs_stream_sleep_on(struct rs_socket *s, struct vb_sleep *sleep)
{
	struct rs_stream *st = rs_stream(s);

	return st->state >= RS_CONNECTED && st->cq ? -vb_sleep_add_cq(sleep, st->cq) : 0;
}
