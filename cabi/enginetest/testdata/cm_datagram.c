/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP port space: servers of a port, and multicast groups. */
#include "cm.h"

enum { LISTENER = 21, CLIENT, SERVER, QP, MEMBER, JOIN };

static char memory[8192];
static struct channel ch;
static vb_handle ctx, pd;
static struct cq *cq;

static void resolve(void)
{
	struct sockaddr_in at;
	vb_handle listener = new_listener(&ch, RDMA_PS_UDP, LISTENER, &at), server;
	vb_handle client = new_resolved(&ch, RDMA_PS_UDP, CLIENT, SA(at));
	struct rdma_conn_param p = {.private_data = "who", .private_data_len = 4};
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	struct vb_cm_event *ev = WANT_EVENT(&ch, LISTENER, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev->is_ud && ev->param.ud.private_data_len == 180 && !strcmp(ev->param.ud.private_data, "who"));
	server = ev->new_id;
	free(ev);
	CALL(0, e->cm_id_adopt(server, SERVER));
	struct qp q = new_cm_qp(server, pd, IBV_QPT_UD, cq, QP);
	CHECK(qp_state(q) == IBV_QPS_RTS);
	p = (struct rdma_conn_param){.private_data = "me", .private_data_len = 3};
	CALL(0, e->cm_accept(server, &p, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&ch, CLIENT, RDMA_CM_EVENT_ESTABLISHED);
	struct rdma_ud_param *ud = &ev->param.ud;
	union ibv_gid self = local_gid();
	CHECK(ev->is_ud && ud->qp_num == q.num && ud->qkey == RDMA_UDP_QKEY && ud->private_data_len == 136 && !strcmp(ud->private_data, "me"));
	CHECK(ud->ah_attr.is_global && ud->ah_attr.port_num == 1 && !memcmp(&ud->ah_attr.grh.dgid, &self, 16));
	vb_handle ah;
	CALL(0, e->ah_create(pd, &ud->ah_attr, &ah));
	CALL(0, e->ah_destroy(ah));
	free(ev);
	CALL(EINVAL, e->cm_disconnect(client)); /* nothing is connected */
	CALL(0, e->cm_id_destroy(client));

	/* Refused, and not served at all: the status is the peer's. */
	client = new_resolved(&ch, RDMA_PS_UDP, CLIENT, SA(at));
	CALL(0, e->cm_connect(client, NULL, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&ch, LISTENER, RDMA_CM_EVENT_CONNECT_REQUEST);
	CALL(0, e->cm_reject(ev->new_id, NULL, 0));
	CALL(0, e->cm_id_destroy(ev->new_id));
	free(ev);
	ev = WANT_EVENT(&ch, CLIENT, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(ev->status == 2 /* IB_SIDR_REJECT */);
	free(ev);
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->cm_id_destroy(listener));
	client = new_resolved(&ch, RDMA_PS_UDP, CLIENT, SA(at));
	CALL(0, e->cm_connect(client, NULL, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&ch, CLIENT, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(ev->status == 1 /* IB_SIDR_UNSUPPORTED */);
	free(ev);
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->cm_qp_destroy(server));
	CALL(0, e->cm_id_destroy(server));
}

static void groups(void)
{
	struct sockaddr_in self = in4("127.0.0.1", 0), group = in4("239.77.1.1", 0);
	vb_handle id = new_id(&ch, RDMA_PS_UDP, MEMBER);
	CALL(EINVAL, e->cm_join(id, SA(group), RDMA_MC_JOIN_FLAG_FULLMEMBER, JOIN));
	CALL(0, e->cm_resolve_addr(id, SA(self), SA(group), 1000));
	PASS_EVENT(&ch, MEMBER, RDMA_CM_EVENT_ADDR_RESOLVED);
	struct qp q = new_cm_qp(id, pd, IBV_QPT_UD, cq, QP);
	struct mr m = new_mr(pd, memory, sizeof memory);
	post_recv(q, 1, memory + 4096, 1024, m.lkey);
	CALL(EINVAL, e->cm_join(id, SA(self), RDMA_MC_JOIN_FLAG_FULLMEMBER, JOIN));
	CALL(EINVAL, e->cm_join(id, SA(group), RDMA_MC_JOIN_FLAG_RESERVED, JOIN));
	CALL(EADDRNOTAVAIL, e->cm_leave(id, SA(group)));
	CALL(0, e->cm_join(id, SA(group), RDMA_MC_JOIN_FLAG_FULLMEMBER, JOIN));
	CALL(EADDRINUSE, e->cm_join(id, SA(group), RDMA_MC_JOIN_FLAG_FULLMEMBER, JOIN + 1));
	struct vb_cm_event *ev = WANT_EVENT(&ch, MEMBER, RDMA_CM_EVENT_MULTICAST_JOIN);
	struct rdma_ud_param *ud = &ev->param.ud;
	union ibv_gid mgid = {.raw = {[10] = 0xff, [11] = 0xff, 239, 77, 1, 1}};
	CHECK(ev->context == JOIN && ev->status == 0 && ev->is_ud && ud->qp_num == 0xffffff && ud->qkey == RDMA_UDP_QKEY && !ud->private_data);
	CHECK(ud->ah_attr.is_global && !memcmp(&ud->ah_attr.grh.dgid, &mgid, 16) && ud->ah_attr.grh.sgid_index == gid_index);

	struct vb_ah ah;
	memset(&ah, 0, sizeof ah);
	CALL(0, e->ah_create(pd, &ud->ah_attr, &ah.handle));
	strcpy(memory, "to all");
	struct ibv_sge s = {(uintptr_t)memory, 7, m.lkey};
	struct ibv_send_wr w = {.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
				.wr.ud = {.ah = &ah.ah, .remote_qpn = ud->qp_num, .remote_qkey = ud->qkey}}, *bad;
	CALL(0, e->qp_post_send(q.handle, &w, &bad));
	WANT_WC(cq, 1, 0, OP_RECV);
	CHECK(!strcmp(memory + 4096 + 40, "to all"));
	free(ev);
	CALL(0, e->ah_destroy(ah.handle));
	CALL(0, e->cm_leave(id, SA(group)));
	CALL(0, e->cm_join(id, SA(group), RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, JOIN + 2));
	ev = WANT_EVENT(&ch, MEMBER, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(ev->context == JOIN + 2);
	free(ev);
	CALL(EINVAL, e->qp_detach_mcast(q.handle, &mgid)); /* it was not attached to send only */
	CALL(0, e->cm_qp_destroy(id));
	CALL(0, e->cm_id_destroy(id));
}

int main(int argc, char **argv)
{
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	cq = new_cq(ctx, 64, 0, 1);
	ch = new_channel();
	resolve();
	groups();
	CHECK(!next_event(&ch, 0));
	CALL(0, e->cm_channel_destroy(ch.handle));
	printf("ok\n");
	return 0;
}
