/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer sends and disconnects. DISCONNECTED, at which many a program destroys its queue pair,
 * waits for a while until earlier completions are polled: of a queue pair of rdma_create_qp(3), and
 * of one that the program made itself and names by its number.
 */
#include "cm.h"

#include <time.h>

#define PATIENCE_MS 100 /* how long the event waits */
#define LOOK_MS 20

struct side {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[8];
};

static struct rdma_event_channel *server, *client;

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void to(struct side *side, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	CHECK(rdma_init_qp_attr(side->id, &attr, &mask) == 0);
	CHECK(ibv_modify_qp(side->qp, &attr, mask) == 0);
}

static void make(struct side *side, struct rdma_cm_id *id, int own)
{
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	side->id = id;
	side->pd = ibv_alloc_pd(id->verbs);
	side->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(side->pd && side->cq);
	attr.send_cq = attr.recv_cq = side->cq;
	if (own) {
		side->qp = ibv_create_qp(side->pd, &attr);
		CHECK(side->qp);
		to(side, IBV_QPS_INIT);
	} else {
		CHECK(rdma_create_qp(id, side->pd, &attr) == 0);
		side->qp = id->qp;
	}
	side->mr = ibv_reg_mr(side->pd, side->buf, sizeof(side->buf), IBV_ACCESS_LOCAL_WRITE);
	CHECK(side->mr);
}

static void unmake(struct side *side)
{
	if (side->id->qp)
		rdma_destroy_qp(side->id);
	else
		CHECK(ibv_destroy_qp(side->qp) == 0);
	CHECK(ibv_dereg_mr(side->mr) == 0);
	CHECK(ibv_destroy_cq(side->cq) == 0);
	CHECK(ibv_dealloc_pd(side->pd) == 0);
	CHECK(rdma_destroy_id(side->id) == 0);
}

static void post_recv(struct side *side)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->buf, .length = sizeof(side->buf), .lkey = side->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(side->qp, &wr, &bad) == 0);
}

static void want(struct side *side, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(side->cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.status == status && (status != IBV_WC_SUCCESS || wc.opcode == opcode));
}

static void connect_sides(const char *arg, struct rdma_cm_id *listener, struct side *a, struct side *p, int own)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *event;

	make(a, test_resolve(client, arg, listener), own);
	param.qp_num = a->qp->qp_num;
	CHECK(rdma_connect(a->id, &param) == 0);
	event = test_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	make(p, event->id, own);
	CHECK(rdma_ack_cm_event(event) == 0);
	if (own) {
		to(p, IBV_QPS_RTR);
		to(p, IBV_QPS_RTS);
	}
	post_recv(p);
	post_recv(p);
	param.qp_num = p->qp->qp_num;
	CHECK(rdma_accept(p->id, &param) == 0);
	test_ack(client, own ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED);
	if (own) {
		to(a, IBV_QPS_RTR);
		to(a, IBV_QPS_RTS);
		CHECK(rdma_establish(a->id) == 0);
	}
	test_ack(server, RDMA_CM_EVENT_ESTABLISHED);
}

/* Says whether the machine was fast enough for the test to tell. */
static int peer_disconnects(const char *arg, struct rdma_cm_id *listener, int own, int poll_first)
{
	struct pollfd fd = { .fd = server->fd, .events = POLLIN };
	struct side a = { .buf = "bye" }, p = { .buf = "" };
	struct ibv_sge sge;
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	int told, fast = 1;
	long begin;

	connect_sides(arg, listener, &a, &p, own);
	sge = (struct ibv_sge){ .addr = (uintptr_t)a.buf, .length = sizeof(a.buf), .lkey = a.mr->lkey };
	CHECK(ibv_post_send(a.qp, &send, &bad) == 0);
	want(&a, IBV_WC_SEND, IBV_WC_SUCCESS); /* the message has come */
	begin = now_ms();
	CHECK(rdma_disconnect(a.id) == 0);
	if (poll_first) {
		told = poll(&fd, 1, LOOK_MS);
		fast = now_ms() - begin < PATIENCE_MS;
		CHECK(!told || !fast);
		want(&p, IBV_WC_RECV, IBV_WC_SUCCESS);
	}
	test_ack(server, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(poll_first || now_ms() - begin >= PATIENCE_MS - 1); /* it waited */
	if (!poll_first)
		want(&p, IBV_WC_RECV, IBV_WC_SUCCESS);
	CHECK(strcmp(p.buf, "bye") == 0);
	if (own) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		CHECK(ibv_modify_qp(p.qp, &attr, IBV_QP_STATE) == 0);
	}
	CHECK(rdma_disconnect(p.id) == 0);
	want(&p, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
	test_ack(client, RDMA_CM_EVENT_DISCONNECTED);
	unmake(&a);
	unmake(&p);
	return fast;
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listener;

	server = rdma_create_event_channel();
	client = rdma_create_event_channel();
	CHECK(argc == 2 && server && client);
	listener = test_listen(server, argv[1], RDMA_PS_TCP);
	for (int own = 0; own < 2; own++) {
		while (!peer_disconnects(argv[1], listener, own, 1))
			;
		peer_disconnects(argv[1], listener, own, 0);
	}
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	return 0;
}
