/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests and answers over reliable connections: one thread, epoll over the
 * connection manager's channel and a completion channel, both non-blocking. The server's
 * queue pairs share a receive queue. Successive completions of one connection lead to one list of
 * receives and one of sends. The TCP program also answers all requests of a read by one write.
 */
#include "requests.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#define POLLED 32         /* completions of one poll */
#define SIGNAL_EACH 16    /* every such send is signaled */
#define CONNECTING 32     /* connections being set up at once */
#define RESOLVE_MS 10000

struct conn {
	struct rdma_cm_id *id;
	unsigned sends; /* listed */
	unsigned first; /* client: its first receive buffer */
};

static struct options *o;
static struct rdma_event_channel *cm;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_pd *pd;
static struct ibv_mr *received, *sent;
static struct ibv_sge from; /* all of sent */
static struct conn *all;
static int epoll, in_bytes, out_bytes, conns;
static int *numbers; /* server: of connections, by QPN */

static struct {
	struct conn *conn;
	int recvs, sends;
	struct ibv_recv_wr recv[POLLED];
	struct ibv_sge to[POLLED];
	struct ibv_send_wr send[POLLED];
} list; /* not posted yet */

static unsigned receives(void) { return (unsigned)o->clients * (o->depth ? o->depth : 1); }

static void non_blocking(int fd)
{
	CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

static struct ibv_mr *region(struct ibv_pd *of, size_t bytes)
{
	void *p = calloc(1, bytes);
	struct ibv_mr *mr;

	CHECK(p && (mr = ibv_reg_mr(of, p, bytes, IBV_ACCESS_LOCAL_WRITE)));
	return mr;
}

/* Makes the objects that all connections of a device share. */
static void prepare(struct ibv_context *verbs, int server)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = receives(), .max_sge = 1 } };

	if (pd)
		return;
	in_bytes = server ? REQUEST : o->value;
	out_bytes = server ? o->value : REQUEST;
	CHECK(pd = ibv_alloc_pd(verbs));
	CHECK(channel = ibv_create_comp_channel(verbs));
	CHECK(cq = ibv_create_cq(verbs, receives() * 2 + o->clients * 16, NULL, channel, 0));
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
	non_blocking(channel->fd);
	watch_fd(epoll, EPOLL_CTL_ADD, channel->fd, EPOLLIN, channel);
	received = region(pd, (size_t)receives() * in_bytes);
	sent = region(pd, out_bytes);
	from = (struct ibv_sge){ (uintptr_t)sent->addr, out_bytes, sent->lkey };
	if (server)
		CHECK(srq = ibv_create_srq(pd, &attr));
}

static void post_list(void)
{
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;

	if (list.recvs > 0) {
		list.recv[list.recvs - 1].next = NULL;
		errno = srq ? ibv_post_srq_recv(srq, list.recv, &bad_recv) :
			      ibv_post_recv(list.conn->id->qp, list.recv, &bad_recv);
		CHECK(errno == 0);
	}
	if (list.sends > 0) {
		list.send[list.sends - 1].next = NULL;
		CHECK((errno = ibv_post_send(list.conn->id->qp, list.send, &bad_send)) == 0);
	}
	list.recvs = list.sends = 0;
}

/* Begins a list for a connection if the list is another's, or full. */
static void list_for(struct conn *c, int used)
{
	if (list.conn != c || used == POLLED)
		post_list();
	list.conn = c;
}

static void add_receive(struct conn *c, uint64_t number)
{
	struct ibv_sge to = { (uintptr_t)received->addr + number * in_bytes, in_bytes, received->lkey };
	int n;

	list_for(c, list.recvs);
	n = list.recvs++;
	list.to[n] = to;
	list.recv[n] = (struct ibv_recv_wr){
		.wr_id = number, .sg_list = list.to + n, .num_sge = 1, .next = list.recv + n + 1,
	};
}

static void add_send(struct conn *c)
{
	int n;

	list_for(c, list.sends);
	n = list.sends++;
	list.send[n] = (struct ibv_send_wr){
		.wr_id = UINT64_MAX, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
		.next = list.send + n + 1,
	};
	if (++c->sends % SIGNAL_EACH == 0)
		list.send[n].send_flags = IBV_SEND_SIGNALED;
	if (out_bytes <= REQUEST)
		list.send[n].send_flags |= IBV_SEND_INLINE;
}

static void make_qp(struct rdma_cm_id *id, struct conn *c)
{
	unsigned depth = o->depth ? o->depth : 1;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = srq,
		.cap = { .max_send_wr = 2 * depth + 2 * SIGNAL_EACH, .max_send_sge = 1,
			 .max_inline_data = REQUEST,
			 .max_recv_wr = srq ? 0 : depth, .max_recv_sge = srq ? 0 : 1 },
	};

	CHECK(rdma_create_qp(id, pd, &attr) == 0);
	c->id = id;
	id->context = c;
}

/* Takes the completions of an event; returns how many requests or answers came. */
static long complete(void)
{
	struct ibv_wc wc[POLLED];
	struct ibv_cq *of;
	void *context;
	unsigned events = 0;
	long came = 0;
	int n;

	while (ibv_get_cq_event(channel, &of, &context) == 0)
		events++;
	if (events)
		ibv_ack_cq_events(cq, events);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
	while ((n = ibv_poll_cq(cq, POLLED, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			struct conn *c;

			if (wc[i].status == IBV_WC_WR_FLUSH_ERR)
				continue;
			if (wc[i].status != IBV_WC_SUCCESS) {
				fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc[i].status));
				exit(1);
			}
			if (wc[i].wr_id == UINT64_MAX)
				continue;
			came++;
			c = all + (srq ? (uint64_t)numbers[wc[i].qp_num] : wc[i].wr_id / o->depth);
			add_receive(c, wc[i].wr_id);
			add_send(c);
		}
		post_list();
	}
	CHECK(n == 0);
	return came;
}

static struct rdma_conn_param reliable = { .retry_count = 7, .rnr_retry_count = 7 };

/* Handles one event of the server's channel; returns how many clients left. */
static int accept_or_leave(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	int made = pd != NULL, left = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		prepare(id->verbs, 1);
		for (unsigned i = 0; !made && i < receives(); i++)
			add_receive(NULL, i);
		post_list();
		CHECK(conns < o->clients);
		make_qp(id, all + conns);
		numbers[id->qp->qp_num] = conns++;
		CHECK(rdma_accept(id, &reliable) == 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		left = 1;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "server: %s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
	return left;
}

static void serve(void)
{
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;
	struct epoll_event events[EVENTS];
	int left = 0;

	CHECK(numbers = calloc(1 << 24, sizeof *numbers));
	CHECK(rdma_create_id(cm, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&o->addr) == 0);
	CHECK(rdma_listen(listener, 4096) == 0);
	non_blocking(cm->fd);
	watch_fd(epoll, EPOLL_CTL_ADD, cm->fd, EPOLLIN, cm);
	say("ready", 0, 0);
	while (left < o->clients) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		CHECK(n >= 0 || errno == EINTR);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == channel) {
				complete();
				continue;
			}
			while (rdma_get_cm_event(cm, &event) == 0)
				left += accept_or_leave(event);
		}
	}
}

static void resolve(struct conn *c)
{
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(cm, &id, c, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&o->addr, RESOLVE_MS) == 0);
}

/* Takes a connection's next step; returns whether it is established. */
static int step(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	struct conn *c = id->context;
	unsigned depth = o->depth ? o->depth : 1;
	int established = event->event == RDMA_CM_EVENT_ESTABLISHED;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		CHECK(rdma_resolve_route(id, RESOLVE_MS) == 0);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		prepare(id->verbs, 0);
		make_qp(id, c);
		for (unsigned i = 0; i < depth; i++)
			add_receive(c, (c - all) * depth + i);
		post_list();
		CHECK(rdma_connect(id, &reliable) == 0);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	default:
		fprintf(stderr, "client: %s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
	return established;
}

static void connect_all(void)
{
	int begun = 0, done = 0;
	double start = now();

	while (done < o->clients) {
		struct rdma_cm_event *event;

		while (begun < o->clients && begun - done < CONNECTING)
			resolve(all + begun++);
		CHECK(rdma_get_cm_event(cm, &event) == 0);
		done += step(event);
	}
	say("connected", o->clients, now() - start);
}

static void ask(void)
{
	struct epoll_event events[EVENTS];
	double start, end;
	long answers = 0;

	connect_all();
	await_line();
	start = now();
	end = start + o->seconds;
	for (int i = 0; i < o->clients; i++)
		for (int n = 0; n < o->depth; n++)
			add_send(all + i);
	post_list();
	while (now() < end) {
		int n = epoll_wait(epoll, events, EVENTS, (end - now()) * 1e3 + 1);

		CHECK(n >= 0 || errno == EINTR);
		if (n > 0)
			answers += complete();
	}
	say("answered", answers, now() - start);
	await_line();
	for (int i = 0; i < o->clients; i++)
		rdma_disconnect(all[i].id);
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	int server = parse(argc, argv, &options);

	o = &options;
	epoll = watch();
	CHECK(all = calloc(o->clients, sizeof *all));
	CHECK(cm = rdma_create_event_channel());
	if (server)
		serve();
	else
		ask();
	return 0;
}
