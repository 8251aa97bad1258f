/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong calls and their errno; options. */
#include "cm.h"

int main(int argc, char **argv)
{
	vb_handle id, other, ctx, pd;
	struct sockaddr_in any = in4("0.0.0.0", 0), self = in4("127.0.0.1", 0), absent = in4("192.0.2.1", 0);
	struct sockaddr local = {.sa_family = AF_UNIX};
	struct rdma_conn_param p = {.qp_num = 77, .retry_count = 7};
	start(argc, argv);
	struct channel ch = new_channel();

	CALL(EINVAL, e->cm_id_create(ch.handle, RDMA_PS_IPOIB + 1, 1, &id));
	CALL(EINVAL, e->cm_id_create(0, RDMA_PS_TCP, 1, &id));
	id = new_id(&ch, RDMA_PS_TCP, 1);
	CALL(EINVAL, e->cm_bind(id, NULL));
	CALL(EAFNOSUPPORT, e->cm_bind(id, &local));
	CALL(ENODEV, e->cm_bind(id, SA(absent)));
	CALL(EINVAL, e->cm_resolve_addr(id, NULL, NULL, 10));
	CALL(EINVAL, e->cm_resolve_route(id, 10));
	CALL(EINVAL, e->cm_connect(id, &p, &(struct ibv_ece){ 0 }));
	CALL(EINVAL, e->cm_accept(id, &p, &(struct ibv_ece){ 0 }));
	CALL(EINVAL, e->cm_reject(id, NULL, 0));
	CALL(EINVAL, e->cm_establish(id));
	CALL(EINVAL, e->cm_disconnect(id));
	CALL(EINVAL, e->cm_qp_destroy(id));
	CALL(EINVAL, e->cm_migrate(id, 0));
	CALL(EINVAL, e->cm_id_adopt(id, 5)); /* it has a cookie */
	CALL(EINVAL, e->cm_notify(id, 99));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;
	CALL(EINVAL, e->cm_init_qp_attr(id, &attr, &mask)); /* it has no device */

	/* Options: the sizes are those of rdma_set_option(3). */
	uint8_t byte = 32;
	int on = 1;
	CALL(0, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1));
	CALL(EINVAL, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4));
	CALL(EINVAL, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1));
	CALL(EINVAL, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
	byte = 14;
	CALL(0, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
	CALL(EINVAL, e->cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1));
	CALL(ENOSYS, e->cm_set_option(id, RDMA_OPTION_ID, 9, &on, 4));
	CALL(ENOSYS, e->cm_set_option(id, 7, 0, &on, 4));
	CALL(EINVAL, e->cm_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &on, 4));

	/* IPv4 and IPv6 on one port: AFONLY before the address. */
	other = new_id(&ch, RDMA_PS_TCP, 2);
	CALL(0, e->cm_bind(id, SA(any)));
	struct vb_cm_route r;
	CALL(0, e->cm_route(id, &r));
	CHECK(r.device[0] == 0 && !r.have_path && r.dst.ss_family == 0);
	struct sockaddr_in6 any6 = in6("::", ntohs(((struct sockaddr_in *)&r.src)->sin_port));
	CALL(EADDRINUSE, e->cm_bind(other, SA(any6)));
	CALL(0, e->cm_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CALL(0, e->cm_bind(other, SA(any6)));
	CALL(0, e->cm_listen(id, 0));
	CALL(0, e->cm_listen(other, 0));
	CALL(EINVAL, e->cm_listen(other, 0));
	CALL(EINVAL, e->cm_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CALL(0, e->cm_id_destroy(other));
	CALL(0, e->cm_id_destroy(id));

	/* An address that cannot be reached is an event, not an error. */
	id = new_id(&ch, RDMA_PS_TCP, 3);
	CALL(0, e->cm_bind(id, SA(self)));
	struct sockaddr_in6 six = in6("::1", 9);
	CALL(0, e->cm_resolve_addr(id, NULL, SA(six), 10));
	struct vb_cm_event *ev = WANT_EVENT(&ch, 3, RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(ev->status == -EINVAL);
	free(ev);
	CALL(0, e->cm_id_destroy(id));

	/* Parameters, and a queue pair that does not go with the port space. */
	struct sockaddr_in nobody = in4("127.0.0.1", 9);
	id = new_resolved(&ch, RDMA_PS_TCP, 4, SA(nobody));
	p.responder_resources = 129;
	CALL(EINVAL, e->cm_connect(id, &p, &(struct ibv_ece){ 0 }));
	p = (struct rdma_conn_param){.qp_num = 77, .private_data = &ch, .private_data_len = 57};
	CALL(EINVAL, e->cm_connect(id, &p, &(struct ibv_ece){ 0 }));
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *q = new_cq(ctx, 8, 0, 1);
	struct vb_qp_init init = {.type = IBV_QPT_UD, .pd = pd, .send_cq = q->handle, .recv_cq = q->handle, .cap = {1, 1, 1, 1, 0}};
	struct qp qp;
	CALL(EINVAL, e->cm_qp_create(id, &init, &qp.handle, &qp.num));
	init.pd = 0;
	CALL(EINVAL, e->cm_qp_create(id, &init, &qp.handle, &qp.num));
	CALL(0, e->cq_destroy(q->handle)); /* nothing was left behind on it */
	CALL(0, e->cm_id_destroy(id));
	CHECK(!next_event(&ch, 0));
	printf("ok\n");
	return 0;
}
