/* SPDX-License-Identifier: BSD-2-Clause */
/* Common to the programs of the connection manager. */
#include "harness.h"

struct channel {
	int fds[2]; /* read, write */
	vb_handle handle;
};

static inline struct channel new_channel(void)
{
	struct channel c;
	CHECK(pipe2(c.fds, O_CLOEXEC) == 0);
	CALL(0, e->cm_channel_create(c.fds[1], &c.handle));
	return c;
}

/* The next event of a channel, NULL if none comes within the time. */
static inline struct vb_cm_event *next_event(struct channel *c, int millis)
{
	struct pollfd p = {.fd = c->fds[0], .events = POLLIN};
	struct vb_cm_event *ev;
	if (poll(&p, 1, millis) != 1)
		return NULL;
	CHECK(read(c->fds[0], &ev, sizeof ev) == sizeof ev);
	return ev;
}

static inline struct vb_cm_event *want_event(struct channel *c, vb_cookie id, enum rdma_cm_event_type type, int line)
{
	struct vb_cm_event *ev = next_event(c, 20000);
	if (!ev || ev->type != type || ev->id != id) {
		printf("FAIL line %d: event %d of %lu with status %d, want %d of %lu\n", line, ev ? (int)ev->type : -1,
		       ev ? (unsigned long)ev->id : 0, ev ? ev->status : 0, type, (unsigned long)id);
		exit(1);
	}
	return ev;
}
#define WANT_EVENT(c, id, type) want_event(c, id, type, __LINE__)
/* For events of which no more than the type counts. */
#define PASS_EVENT(c, id, type)                                                   \
	do {                                                                      \
		struct vb_cm_event *ev_ = WANT_EVENT(c, id, type);                \
		CHECK(ev_->status == 0);                                          \
		free(ev_);                                                        \
	} while (0)

static inline struct sockaddr_in in4(const char *ip, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	return a;
}

static inline struct sockaddr_in6 in6(const char *ip, int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	CHECK(inet_pton(AF_INET6, ip, &a.sin6_addr) == 1);
	return a;
}
#define SA(a) ((struct sockaddr *)&(a))

static inline vb_handle new_id(struct channel *c, int ps, vb_cookie cookie)
{
	vb_handle id = 0;
	CALL(0, e->cm_id_create(c->handle, ps, cookie, &id));
	CHECK(id != 0);
	return id;
}

/* A listener on a port of the system's choice. */
static inline vb_handle new_listener(struct channel *c, int ps, vb_cookie cookie, struct sockaddr_in *at)
{
	vb_handle id = new_id(c, ps, cookie);
	struct vb_cm_route r;
	*at = in4("127.0.0.1", 0);
	CALL(0, e->cm_bind(id, SA(*at)));
	CALL(0, e->cm_listen(id, 8));
	CALL(0, e->cm_route(id, &r));
	memcpy(at, &r.src, sizeof *at);
	CHECK(at->sin_port != 0 && at->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	return id;
}

/* An identifier that may connect. */
static inline vb_handle new_resolved(struct channel *c, int ps, vb_cookie cookie, struct sockaddr *dst)
{
	vb_handle id = new_id(c, ps, cookie);
	CALL(0, e->cm_resolve_addr(id, NULL, dst, 1000));
	PASS_EVENT(c, cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	CALL(0, e->cm_resolve_route(id, 1000));
	PASS_EVENT(c, cookie, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static inline struct qp new_cm_qp(vb_handle id, vb_handle pd, enum ibv_qp_type type, struct cq *q, vb_cookie cookie)
{
	struct vb_qp_init init = {
		.type = type, .pd = pd, .send_cq = q->handle, .recv_cq = q->handle, .cookie = cookie,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64},
	};
	struct qp qp;
	init.recv = new_recvs(&qp.recvs, 8, 1);
	CALL(0, e->cm_qp_create(id, &init, &qp.handle, &qp.num));
	CHECK(init.cap.max_send_wr >= 8);
	return qp;
}

static inline int qp_state(struct qp q)
{
	struct ibv_qp_attr a;
	CALL(0, e->qp_query(q.handle, &a, NULL));
	return a.qp_state;
}
