/* SPDX-License-Identifier: BSD-2-Clause */
/* The UD queue pairs of a datagram socket. */
#include "datagram.h"
#include "defaults.h"
#include "watch.h"

#include <endian.h>
#include <stdlib.h>

/* The queue key of RDMA_PS_UDP: rdma_cma.h. */
#define QKEY RDMA_UDP_QKEY

#define GRH_BYTES sizeof(struct ibv_grh)
#define SLOT_BYTES (GRH_BYTES + RS_DATAGRAM_MAX)

/* A wr_id is the index of a slot and its kind. */
#define RECEIVE (1ull << 32)

/* Completions per call, and calls before other sockets get their turn. */
#define BATCH 16
#define BATCHES 64

static void set_header(struct rs_ud_header *h, const union rs_addr *local)
{
	if (local->sa.sa_family == AF_INET) {
		*h = (struct rs_ud_header){ .version = 4,
					    .length = RS_UD_HEADER_IPV4,
					    .port = local->in.sin_port };
		h->ipv4 = local->in.sin_addr.s_addr;
	} else {
		*h = (struct rs_ud_header){ .version = 6,
					    .length = RS_UD_HEADER_IPV6,
					    .port = local->in6.sin6_port };
		h->ipv6.flowinfo = local->in6.sin6_flowinfo;
		memcpy(h->ipv6.addr, &local->in6.sin6_addr, sizeof(h->ipv6.addr));
	}
}

/* Returns false if the bytes are not a whole header. */
static bool read_header(const uint8_t *data, uint32_t length, union rs_addr *from,
			uint32_t *header_length)
{
	struct rs_ud_header h = { 0 };

	memcpy(&h, data, length < sizeof(h) ? length : sizeof(h));
	*header_length = h.length;
	memset(from, 0, sizeof(*from));
	if (h.version == 4 && h.length == RS_UD_HEADER_IPV4 && length >= h.length) {
		from->in = (struct sockaddr_in){ .sin_family = AF_INET,
						 .sin_port = h.port,
						 .sin_addr.s_addr = h.ipv4 };
		return true;
	}
	if (h.version == 6 && h.length == RS_UD_HEADER_IPV6 && length >= h.length) {
		from->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						   .sin6_port = h.port,
						   .sin6_flowinfo = h.ipv6.flowinfo };
		memcpy(&from->in6.sin6_addr, h.ipv6.addr, sizeof(h.ipv6.addr));
		return true;
	}
	return false;
}

void rs_ud_repost(struct rs_slot *slot)
{
	struct rs_ud *ud = slot->ud;
	struct ibv_sge sge = { .addr = (uintptr_t)slot->buffer,
			       .length = SLOT_BYTES,
			       .lkey = ud->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE | (uint64_t)(slot - ud->slots),
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	/* The post fails only in the error state, when nothing arrives any more. */
	ibv_post_recv(ud->id->qp, &wr, &bad);
}

/* Returns true if the datagram is for the application. */
static bool take_receive(struct rs_datagram *d, struct rs_slot *slot, const struct ibv_wc *wc)
{
	uint32_t length, header;

	if (wc->status != IBV_WC_SUCCESS || wc->byte_len < GRH_BYTES || !d->may_receive)
		return false;
	length = wc->byte_len - (uint32_t)GRH_BYTES;
	if (!read_header(slot->buffer + GRH_BYTES, length, &slot->from, &header))
		return false;
	if (d->connected.sa.sa_family && !rs_same_addr(&d->connected, &slot->from))
		return false; /* connected: only from that peer, as connect(2) says */
	slot->data = slot->buffer + GRH_BYTES + header;
	slot->length = length - header;
	return true;
}

void rs_ud_progress(struct rs_datagram *d, struct rs_ud *ud)
{
	struct ibv_wc wc[BATCH];
	bool changed = false;
	int n;

	for (int i = 0; i < BATCHES && (n = ibv_poll_cq(ud->cq, BATCH, wc)) > 0; i++) {
		for (int k = 0; k < n; k++) {
			uint32_t index = (uint32_t)wc[k].wr_id;

			if (!(wc[k].wr_id & RECEIVE))
				ud->free_sends[ud->sends_free++] = index;
			else if (take_receive(d, &ud->slots[index], &wc[k]))
				rs_datagram_deliver(d, &ud->slots[index]);
			else if (wc[k].status != IBV_WC_WR_FLUSH_ERR)
				rs_ud_repost(&ud->slots[index]);
		}
		changed = true;
		if (n < BATCH)
			break;
	}
	if (changed)
		rs_ring(&d->s);
}

int rs_ud_send(struct rs_peer *peer, struct rs_cursor *from)
{
	struct rs_ud *ud = peer->ud;
	uint32_t index = ud->free_sends[--ud->sends_free],
		 length = ud->header.length + (uint32_t)from->left;
	uint8_t *slot = ud->memory + (size_t)index * RS_DATAGRAM_MAX;
	struct ibv_sge sge = { .addr = (uintptr_t)slot, .length = length, .lkey = ud->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = index,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = length <= ud->inline_data ? IBV_SEND_INLINE : 0,
		.wr.ud = { .ah = peer->ah, .remote_qpn = peer->qpn, .remote_qkey = QKEY },
	}, *bad;

	memcpy(slot, &ud->header, ud->header.length);
	rs_cursor_gather(from, slot + ud->header.length, from->left);
	int error = ibv_post_send(ud->id->qp, &wr, &bad);

	if (error)
		ud->free_sends[ud->sends_free++] = index;
	return -error;
}

static uint32_t clamp(uint32_t n, uint32_t least, uint32_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* Makes the first queue pair, whose sizes hold for all others. 0 or a positive errno, as below. */
static int fit_queues(struct rs_datagram *d, struct ibv_context *verbs)
{
	struct ibv_device_attr device;
	int error = ibv_query_device(verbs, &device);

	if (error)
		return error;
	uint32_t most = clamp((uint32_t)device.max_qp_wr, 1, RS_QUEUE_MAX);
	uint32_t send = d->send_buffer / RS_DATAGRAM_MAX, receive = d->receive_buffer / RS_DATAGRAM_MAX;

	if (!d->uds) {
		d->send_queue = clamp(d->send_queue < send ? d->send_queue : send, 1, most);
		d->receive_queue = clamp(d->receive_queue < receive ? d->receive_queue : receive, 1, most);
	}
	return 0;
}

static int port_mtu(struct rs_ud *ud)
{
	struct ibv_port_attr port;
	int error = ibv_query_port(ud->id->verbs, ud->id->port_num, &port);

	if (error)
		return error;
	ud->mtu = 128u << port.active_mtu; /* enum ibv_mtu */
	if (ud->mtu > RS_DATAGRAM_MAX)
		ud->mtu = RS_DATAGRAM_MAX;
	return 0;
}

static int create_qp(struct rs_datagram *d, struct rs_ud *ud)
{
	ud->events = ibv_create_comp_channel(ud->id->verbs);
	if (!ud->events)
		return errno;
	ud->cq = ibv_create_cq(ud->id->verbs, (int)(d->send_queue + d->receive_queue), ud,
			       ud->events, 0);
	if (!ud->cq)
		return errno;
	struct ibv_qp_init_attr init = {
		.qp_context = ud,
		.send_cq = ud->cq,
		.recv_cq = ud->cq,
		.cap = { .max_send_wr = d->send_queue,
			 .max_recv_wr = d->receive_queue,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = d->inline_data },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(ud->id, NULL, &init))
		return errno;
	ud->inline_data = init.cap.max_inline_data;
	return 0;
}

static int create_slots(struct rs_datagram *d, struct rs_ud *ud)
{
	const size_t page = 4096, sends = (size_t)d->send_queue * RS_DATAGRAM_MAX;
	size_t length = (sends + d->receive_queue * SLOT_BYTES + page - 1) / page * page;
	void *memory;

	if (posix_memalign(&memory, page, length))
		return ENOMEM;
	ud->memory = memset(memory, 0, length);
	ud->slots = calloc(d->receive_queue, sizeof(*ud->slots));
	ud->free_sends = calloc(d->send_queue, sizeof(*ud->free_sends));
	if (!ud->slots || !ud->free_sends)
		return ENOMEM;
	ud->mr = ibv_reg_mr(ud->id->qp->pd, ud->memory, length, IBV_ACCESS_LOCAL_WRITE);
	if (!ud->mr)
		return errno;
	while (ud->sends_free < d->send_queue) {
		ud->free_sends[ud->sends_free] = ud->sends_free;
		ud->sends_free++;
	}
	for (uint32_t i = 0; i < d->receive_queue; i++) {
		ud->slots[i].ud = ud;
		ud->slots[i].buffer = ud->memory + sends + i * SLOT_BYTES;
		rs_ud_repost(&ud->slots[i]);
	}
	return 0;
}

/* Binds to any port: peers use the number of the queue pair. */
static int bind_id(struct rs_ud *ud)
{
	union rs_addr addr = ud->local;

	if (addr.sa.sa_family == AF_INET)
		addr.in.sin_port = 0;
	else
		addr.in6.sin6_port = 0;
	if (rdma_bind_addr(ud->id, &addr.sa))
		return errno;
	return ud->id->verbs ? 0 : ENODEV; /* an address of no device */
}

struct rs_ud *rs_ud_at(struct rs_datagram *d, const union rs_addr *local)
{
	for (struct rs_ud *ud = d->uds; ud; ud = ud->next) {
		if (rs_same_addr(&ud->local, local))
			return ud;
	}
	struct rs_ud *ud = calloc(1, sizeof(*ud));

	if (!ud)
		return NULL;
	ud->local = *local;
	set_header(&ud->header, local);
	int error = rdma_create_id(d->channel, &ud->id, NULL, RDMA_PS_UDP) ? errno : bind_id(ud);

	if (!error)
		error = fit_queues(d, ud->id->verbs);
	if (!error)
		error = port_mtu(ud);
	if (!error)
		error = create_qp(d, ud);
	if (!error)
		error = create_slots(d, ud);
	if (error) {
		rs_ud_free(d, ud);
		errno = error;
		return NULL;
	}
	ud->next = d->uds;
	d->uds = ud;
	rs_ring(&d->s); /* one more queue to sleep on */
	return ud;
}

void rs_ud_free(struct rs_datagram *d, struct rs_ud *ud)
{
	for (struct rs_ud **p = &d->uds; *p; p = &(*p)->next) {
		if (*p == ud) {
			*p = ud->next;
			break;
		}
	}
	if (ud->id && ud->id->qp)
		rdma_destroy_qp(ud->id);
	if (ud->cq)
		ibv_destroy_cq(ud->cq);
	if (ud->events)
		ibv_destroy_comp_channel(ud->events);
	if (ud->mr)
		ibv_dereg_mr(ud->mr);
	if (ud->id)
		rdma_destroy_id(ud->id);
	free(ud->slots);
	free(ud->free_sends);
	free(ud->memory);
	free(ud);
}
