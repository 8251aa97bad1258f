/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection of the TCP port space from both ends; one that is refused; one
 * whose queue pairs are the application's. */
#include "cm.h"

enum { LISTENER = 11, CLIENT, SERVER, CLIENT_QP, SERVER_QP, OTHER, REFUSED };

static char memory[8192];
static struct channel active, passive;
static vb_handle ctx, pd;
static struct cq *cq;
static struct sockaddr_in at;
static vb_handle listener;

/* The request that comes to the listener, adopted. */
static struct vb_cm_event *request(vb_handle *id, vb_cookie cookie)
{
	struct vb_cm_event *ev = WANT_EVENT(&passive, LISTENER, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev->new_id != 0 && !ev->is_ud && ev->param.conn.private_data_len == 56);
	*id = ev->new_id;
	CALL(0, e->cm_id_adopt(*id, cookie));
	CALL(EINVAL, e->cm_id_adopt(*id, cookie));
	return ev;
}

static void up_and_down(void)
{
	vb_handle client = new_resolved(&active, RDMA_PS_TCP, CLIENT, SA(at)), server;
	struct vb_cm_route r;
	memset(&r, 0xff, sizeof r);
	CALL(0, e->cm_route(client, &r));
	CHECK(!strcmp(r.device, device_name) && r.port_num == 1 && r.gid_index == gid_index && r.have_path);
	CHECK(!memcmp(&r.dst, &at, sizeof at) && r.pkey == 0xffff && r.mtu >= IBV_MTU_256);
	union ibv_gid self = local_gid();
	CHECK(!memcmp(&r.sgid, &self, 16) && !memcmp(&r.dgid, &self, 16));

	struct qp a = new_cm_qp(client, pd, IBV_QPT_RC, cq, CLIENT_QP), b;
	CHECK(qp_state(a) == IBV_QPS_INIT);
	struct rdma_conn_param p = {
		.private_data = "hello", .private_data_len = 6, .responder_resources = 3, .initiator_depth = 2, .retry_count = 7, .rnr_retry_count = 5,
	};
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	struct vb_cm_event *ev = request(&server, SERVER);
	struct rdma_conn_param *c = &ev->param.conn;
	CHECK(!strcmp(c->private_data, "hello") && c->private_data == ev->priv);
	CHECK(c->responder_resources == 2 && c->initiator_depth == 3 && c->retry_count == 7 && c->rnr_retry_count == 5 && c->qp_num == a.num);
	free(ev);
	CALL(0, e->cm_route(server, &r));
	CHECK(!strcmp(r.device, device_name) && r.have_path && !memcmp(&r.src, &at, sizeof at));

	b = new_cm_qp(server, pd, IBV_QPT_RC, cq, SERVER_QP);
	struct mr m = new_mr(pd, memory, sizeof memory);
	post_recv(b, 1, memory + 4096, 100, m.lkey);
	p = (struct rdma_conn_param){.private_data = "welcome", .private_data_len = 8, .responder_resources = 255, .initiator_depth = 255, .rnr_retry_count = 7};
	CALL(0, e->cm_accept(server, &p, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&active, CLIENT, RDMA_CM_EVENT_ESTABLISHED);
	c = &ev->param.conn;
	CHECK(!strcmp(c->private_data, "welcome") && c->private_data_len == 196 && c->qp_num == b.num);
	free(ev);
	ev = WANT_EVENT(&passive, SERVER, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!ev->param.conn.private_data && ev->param.conn.private_data_len == 0 && ev->status == 0);
	free(ev);
	CHECK(qp_state(a) == IBV_QPS_RTS && qp_state(b) == IBV_QPS_RTS);

	strcpy(memory, "message");
	struct ibv_sge s = {(uintptr_t)memory, 8, m.lkey};
	struct ibv_send_wr w = {.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	struct vb_wc one = want_wc(cq, __LINE__), two = want_wc(cq, __LINE__);
	CHECK(!one.status && !two.status && one.wr_id + two.wr_id == 3 && !strcmp(memory + 4096, "message"));

	CALL(0, e->cm_disconnect(client));
	ev = WANT_EVENT(&passive, SERVER, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(ev->param.conn.private_data_len == 0);
	free(ev);
	CALL(0, e->cm_disconnect(server));
	PASS_EVENT(&active, CLIENT, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(qp_state(a) == IBV_QPS_ERR && qp_state(b) == IBV_QPS_ERR);
	CALL(0, e->cm_qp_destroy(client));
	CALL(EINVAL, e->cm_qp_destroy(client));
	CALL(EINVAL, e->qp_destroy(a.handle));
	CALL(0, e->cm_id_destroy(client));
	CALL(EINVAL, e->cm_id_destroy(client));
	CALL(0, e->cm_qp_destroy(server));
	CALL(0, e->cm_id_destroy(server));
	CALL(0, e->mr_dereg(m.handle));
}

static void refused(void)
{
	vb_handle client = new_resolved(&active, RDMA_PS_TCP, REFUSED, SA(at)), server;
	struct qp a = new_cm_qp(client, pd, IBV_QPT_RC, cq, CLIENT_QP);
	CALL(0, e->cm_connect(client, NULL, &(struct ibv_ece){ 0 })); /* the most of everything */
	struct vb_cm_event *ev = request(&server, SERVER);
	CHECK(ev->param.conn.retry_count == 7 && ev->param.conn.rnr_retry_count == 7 && ev->param.conn.responder_resources == 128);
	free(ev);
	CALL(0, e->cm_reject(server, "no", 3));
	ev = WANT_EVENT(&active, REFUSED, RDMA_CM_EVENT_REJECTED);
	CHECK(ev->status == 28 /* IB_CM_REJ_CONSUMER_DEFINED */ && ev->param.conn.private_data_len == 148 && !strcmp(ev->param.conn.private_data, "no"));
	free(ev);
	CHECK(qp_state(a) == IBV_QPS_ERR);
	CALL(0, e->cm_qp_destroy(client));
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->cm_id_destroy(server));

	/* In the wrong order: the queue pair outlives its identifier. */
	client = new_resolved(&active, RDMA_PS_TCP, REFUSED, SA(at));
	a = new_cm_qp(client, pd, IBV_QPT_RC, cq, CLIENT_QP);
	CALL(0, e->cm_id_destroy(client));
	CHECK(qp_state(a) == IBV_QPS_INIT);
	CALL(0, e->qp_destroy(a.handle));

	struct sockaddr_in nobody = in4("127.0.0.1", 9);
	client = new_resolved(&active, RDMA_PS_TCP, REFUSED, SA(nobody));
	new_cm_qp(client, pd, IBV_QPT_RC, cq, CLIENT_QP);
	CALL(0, e->cm_connect(client, NULL, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&active, REFUSED, RDMA_CM_EVENT_REJECTED);
	CHECK(ev->status == 8 /* IB_CM_REJ_INVALID_SERVICE_ID */);
	free(ev);
	CALL(0, e->cm_qp_destroy(client));
	CALL(0, e->cm_id_destroy(client));
}

/* Takes a queue pair to a state as the identifier says. */
static void drive(vb_handle id, struct qp q, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	int mask = 0;
	CALL(0, e->cm_init_qp_attr(id, &a, &mask));
	CHECK(mask & IBV_QP_STATE);
	CALL(0, e->qp_modify(q.handle, &a, mask));
}

static void external(void)
{
	vb_handle client = new_resolved(&active, RDMA_PS_TCP, OTHER, SA(at)), server;
	struct qp a = new_qp(pd, IBV_QPT_RC, cq, cq, 0, CLIENT_QP), b = new_qp(pd, IBV_QPT_RC, cq, cq, 0, SERVER_QP);
	drive(client, a, IBV_QPS_INIT);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;
	CALL(EINVAL, e->cm_init_qp_attr(client, &attr, &mask));
	CALL(EINVAL, e->cm_connect(client, NULL, &(struct ibv_ece){ 0 })); /* no queue pair is named */
	struct rdma_conn_param p = {.qp_num = a.num, .responder_resources = 1, .initiator_depth = 1, .retry_count = 200, .rnr_retry_count = 7};
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	free(request(&server, SERVER));
	drive(server, b, IBV_QPS_INIT);
	drive(server, b, IBV_QPS_RTR);
	p.qp_num = b.num;
	CALL(0, e->cm_accept(server, &p, &(struct ibv_ece){ 0 }));
	drive(server, b, IBV_QPS_RTS);
	struct vb_cm_event *ev = WANT_EVENT(&active, OTHER, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(ev->param.conn.qp_num == b.num);
	free(ev);
	drive(client, a, IBV_QPS_RTR);
	drive(client, a, IBV_QPS_RTS);
	CALL(0, e->cm_establish(client));
	CALL(EINVAL, e->cm_establish(client));
	PASS_EVENT(&passive, SERVER, RDMA_CM_EVENT_ESTABLISHED);

	struct mr m = new_mr(pd, memory, sizeof memory);
	strcpy(memory, "external");
	struct ibv_sge s = {(uintptr_t)memory, 9, m.lkey};
	struct ibv_send_wr w = {.wr_id = 7, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = {(uintptr_t)memory + 4096, m.rkey}}, *bad;
	CALL(0, e->qp_post_send(b.handle, &w, &bad));
	WANT_WC(cq, 7, 0, OP_WRITE);
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(cq, 7, 0, OP_WRITE);
	CHECK(!strcmp(memory + 4096, "external"));
	CALL(0, e->cm_notify(server, IBV_EVENT_COMM_EST)); /* too late to matter */
	CALL(0, e->cm_id_destroy(server));
	PASS_EVENT(&active, OTHER, RDMA_CM_EVENT_DISCONNECTED);
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->qp_destroy(a.handle));
	CALL(0, e->qp_destroy(b.handle));
}

int main(int argc, char **argv)
{
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	cq = new_cq(ctx, 64, 0, 1);
	active = new_channel();
	passive = new_channel();
	listener = new_listener(&passive, RDMA_PS_TCP, LISTENER, &at);
	up_and_down();
	refused();
	external();
	CALL(0, e->cm_id_destroy(listener));
	CHECK(!next_event(&active, 0) && !next_event(&passive, 0));
	CALL(0, e->cm_channel_destroy(active.handle));
	CALL(0, e->cm_channel_destroy(passive.handle));
	CALL(EINVAL, e->cm_channel_destroy(passive.handle));
	printf("ok\n");
	return 0;
}
