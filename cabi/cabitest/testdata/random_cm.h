/* SPDX-License-Identifier: BSD-2-Clause */
/* How random_calls.c connects: identifiers and event channels, both ends in one process. */
#ifndef TEST_RANDOM_CM_H
#define TEST_RANDOM_CM_H

#include "random.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

static _Atomic int connected;
/* Ports of listeners, as they come. */
static _Atomic uint16_t ports[4];

static void make_events(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (channel)
		MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	keep(EVENTS, channel);
}

static struct sockaddr_in cm_address(uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	MUST(inet_pton(AF_INET, otherwise("LOOP_ADDRESS", "127.0.0.1"), &in.sin_addr) == 1);
	if (wrong_in(8))
		in.sin_addr.s_addr = any();
	if (wrong_in(8))
		in.sin_family = (sa_family_t)any();
	return in;
}

/* Listens, or looks for a listener, as most identifiers do first. */
static void bind_or_resolve(struct rdma_cm_id *id)
{
	uint16_t port = ports[below(4)];
	struct sockaddr_in in = cm_address(one_in(3) || !port ? 0 : port), source = cm_address(0);

	if (!in.sin_port) {
		if (!rdma_bind_addr(id, (struct sockaddr *)&in) && !rdma_listen(id, (int)number(8)))
			ports[below(4)] = ntohs(rdma_get_src_port(id));
		return;
	}
	rdma_resolve_addr(id, one_in(4) ? (struct sockaddr *)&source : NULL, (struct sockaddr *)&in, (int)number(1000));
}

/* An identifier for a thread alone, NULL if there is none. One that has an event to act on comes first. */
static struct place *seize(void)
{
	struct place *p;

	pthread_mutex_lock(&mu);
	p = pick(ID, 1);
	for (int i = 0; i < PLACES; i++)
		if (objects[ID][i].object && objects[ID][i].event && !objects[ID][i].going)
			p = &objects[ID][i];
	if (p)
		p->going = 1;
	pthread_mutex_unlock(&mu);
	return p;
}

/* The next step of a new identifier. */
#define FRESH 100

/* Notes an event, and takes its identifier if no other thread has it: NULL if one has. */
static struct place *seize_for(const struct rdma_cm_id *id, int event)
{
	struct place *p = NULL;

	pthread_mutex_lock(&mu);
	for (int i = 0; i < PLACES; i++)
		if (objects[ID][i].object == id)
			p = &objects[ID][i];
	if (p)
		p->event = event;
	if (p && p->going)
		p = NULL;
	if (p)
		p->going = 1;
	pthread_mutex_unlock(&mu);
	return p;
}


static void release(struct place *p)
{
	pthread_mutex_lock(&mu);
	if (p)
		p->going = 0;
	pthread_mutex_unlock(&mu);
}

static void make_id(void)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP};
	struct place *channel = use(EVENTS);
	struct rdma_cm_id *id;

	if (channel && !rdma_create_id(object(channel), &id, NULL, wrong_in(8) ? (enum rdma_port_space)any() : spaces[below(4)])) {
		keep(ID, id);
		release(seize_for(id, FRESH));
	}
	done(channel);
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.qp_type = wrong_in(8) ? (enum ibv_qp_type)number(10) : id->qp_type,
					.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
					.sq_sig_all = 1};

	if (id->verbs)
		rdma_create_qp(id, NULL, &attr);
}

static struct rdma_conn_param parameters(void)
{
	static const char words[256];

	return (struct rdma_conn_param){.private_data = words, .private_data_len = (uint8_t)(one_in(2) ? 0 : number(56)),
					.responder_resources = (uint8_t)number(4), .initiator_depth = (uint8_t)number(4),
					.retry_count = (uint8_t)number(8), .rnr_retry_count = (uint8_t)number(8), .qp_num = number(1 << 24)};
}

static void exchange(struct rdma_cm_id *id)
{
	struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad_recv;
	struct ibv_wc wc[8];

	if (!id->qp || id->qp->qp_type != IBV_QPT_RC)
		return;
	ibv_post_recv(id->qp, &recv, &bad_recv);
	ibv_post_send(id->qp, &send, &bad_send);
	for (int n = ibv_poll_cq(id->send_cq, 8, wc) + ibv_poll_cq(id->recv_cq, 8, wc); n > 0; n--)
		succeeded += wc[0].status == IBV_WC_SUCCESS;
}

/* Answers a request, whose identifier is this thread's alone: the identifier, or NULL if it is gone. */
static struct rdma_cm_id *answer(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();

	switch (below(8)) {
	case 0:
		rdma_reject(id, param.private_data, param.private_data_len);
		break;
	case 1:
		EQUAL(rdma_destroy_id(id), 0);
		return NULL;
	case 2:
		break;
	default:
		give_qp(id);
		exchange(id);
		rdma_accept(id, one_in(4) ? NULL : &param);
	}
	return id;
}

/* Acts on an identifier's event, as an application does. */
static void next_step(struct place *p)
{
	struct rdma_conn_param param = parameters();
	struct rdma_cm_id *id = object(p);
	int event;

	pthread_mutex_lock(&mu);
	event = p->event;
	p->event = 0;
	pthread_mutex_unlock(&mu);
	if (event == FRESH) {
		bind_or_resolve(id);
	} else if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		rdma_resolve_route(id, (int)number(1000));
	} else if (event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		give_qp(id);
		exchange(id);
		rdma_connect(id, one_in(4) ? NULL : &param);
	} else if (event == RDMA_CM_EVENT_ESTABLISHED) {
		exchange(id);
	} else if (event == RDMA_CM_EVENT_DISCONNECTED) {
		rdma_disconnect(id);
	}
}

/* The place of a request's channel, for a call. Its listener may have moved there meanwhile. */
static struct place *use_channel(struct rdma_event_channel *channel)
{
	struct place *p = NULL;

	pthread_mutex_lock(&mu);
	for (int i = 0; i < PLACES; i++)
		if (objects[EVENTS][i].object == channel)
			p = &objects[EVENTS][i];
	if (p)
		p->uses++;
	pthread_mutex_unlock(&mu);
	return p;
}

/* Takes an event and reacts to it; returns whether there was one. */
static int take_cm_event(struct rdma_event_channel *channel)
{
	int before = one_in(2); /* the acknowledgement */
	struct rdma_cm_id *request = NULL;
	struct rdma_cm_event *event;
	struct place *on = NULL;

	pthread_rwlock_rdlock(&cm_events);
	if (rdma_get_cm_event(channel, &event)) {
		pthread_rwlock_unlock(&cm_events);
		return 0;
	}
	connected += event->event == RDMA_CM_EVENT_ESTABLISHED;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		request = event->id;
		on = use_channel(request->channel);
		if (before)
			request = answer(request);
	} else {
		struct place *p = seize_for(event->id, (int)event->event);

		if (p) {
			next_step(p);
			release(p);
		}
	}
	EQUAL(rdma_ack_cm_event(event), 0);
	pthread_rwlock_unlock(&cm_events);
	if (request && !before)
		request = answer(request);
	keep(ID, request);
	done(on);
	return 1;
}

static void take_cm_events(void)
{
	struct place *channel = use(EVENTS);
	struct pollfd fd = {.events = POLLIN};

	for (int i = 0; channel && i < 8; i++) {
		fd.fd = ((struct rdma_event_channel *)object(channel))->fd;
		if (!child && poll(&fd, 1, (int)below(2)) != 1)
			break;
		if (!take_cm_event(object(channel)))
			break;
	}
	done(channel);
}

static void move_id(struct place *p)
{
	struct place *to = use(EVENTS);
	struct rdma_cm_id *id = object(p);

	if (to && !rdma_migrate_id(id, object(to))) {
		pthread_mutex_lock(&mu);
		put_on(p, id->channel);
		pthread_mutex_unlock(&mu);
	}
	done(to);
}

/* A call with an identifier in whatever state it is. */
static void call_id(void)
{
	struct place *p = seize();
	struct rdma_cm_id *id = object(p);
	struct rdma_conn_param param = parameters();
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010200 | below(2))};
	uint8_t tos = (uint8_t)any();

	if (!p)
		return;
	switch (p->event && !one_in(4) ? -1 : (int)below(20)) {
	case -1:
		next_step(p);
		break;
	case 0:
		bind_or_resolve(id);
		break;
	case 1:
		rdma_resolve_route(id, (int)number(1000));
		break;
	case 2:
		rdma_connect(id, &param);
		break;
	case 3:
		rdma_accept(id, &param);
		break;
	case 4:
		rdma_reject(id, param.private_data, param.private_data_len);
		break;
	case 5:
	case 6:
		rdma_disconnect(id);
		break;
	case 7:
		rdma_listen(id, (int)number(8));
		break;
	case 8:
	case 9:
		move_id(p);
		break;
	case 10:
		pthread_rwlock_wrlock(&cm_events);
		if (id->qp)
			rdma_destroy_qp(id);
		else
			give_qp(id);
		pthread_rwlock_unlock(&cm_events);
		break;
	case 11:
		rdma_set_option(id, (int)below(3), (int)below(5), &tos, sizeof(tos));
		break;
	case 12:
		rdma_establish(id);
		rdma_notify(id, (enum ibv_event_type)below(20));
		break;
	case 13:
		rdma_join_multicast(id, (struct sockaddr *)&group, NULL);
		break;
	case 14:
		rdma_leave_multicast(id, (struct sockaddr *)&group);
		break;
	case 15:
	case 16:
	case 17:
		release(p);
		drop(ID);
		return;
	default:
		exchange(id);
	}
	release(p);
}

#endif
