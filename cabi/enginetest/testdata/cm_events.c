/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: a full pipe keeps their order, and of an identifier that is gone none
 * comes; identifiers move between channels; before the first context is opened. */
#include "cm.h"

enum { LISTENER = 31, CLIENT, FIRST = 1000 };

/* Fills a channel's pipe from the side of the engine. */
static int fill(struct channel *c)
{
	void *none = NULL;
	int n = 0;
	while (write(c->fds[1], &none, sizeof none) == sizeof none)
		n++;
	CHECK(errno == EAGAIN); /* the engine has made its end so */
	return n;
}

static void drain(struct channel *c, int n)
{
	while (n-- > 0)
		CHECK(!next_event(c, 0));
}

int main(int argc, char **argv)
{
	struct channel a, b, dead;
	struct sockaddr_in at, nobody = in4("127.0.0.1", 9);
	vb_handle id[4], none;
	start(argc, argv);
	a = new_channel();
	b = new_channel();

	/* Nothing fits: events come later, in order, except those of destroyed identifiers. */
	int n = fill(&a);
	for (int i = 0; i < 4; i++) {
		id[i] = new_id(&a, RDMA_PS_TCP, FIRST + i);
		CALL(0, e->cm_resolve_addr(id[i], NULL, SA(nobody), 1000));
		CALL(0, e->cm_resolve_route(id[i], 1000));
	}
	CALL(0, e->cm_id_destroy(id[1]));
	CALL(0, e->cm_migrate(id[2], b.handle));
	PASS_EVENT(&b, FIRST + 2, RDMA_CM_EVENT_ADDR_RESOLVED);
	PASS_EVENT(&b, FIRST + 2, RDMA_CM_EVENT_ROUTE_RESOLVED);
	drain(&a, n);
	for (int i = 0; i < 4; i += 3) {
		PASS_EVENT(&a, FIRST + i, RDMA_CM_EVENT_ADDR_RESOLVED);
		PASS_EVENT(&a, FIRST + i, RDMA_CM_EVENT_ROUTE_RESOLVED);
	}
	CHECK(!next_event(&a, 0) && !next_event(&b, 0));

	/* A request that C has not seen goes with its listener, and the peer learns. */
	vb_handle listener = new_listener(&a, RDMA_PS_TCP, LISTENER, &at);
	n = fill(&a);
	struct rdma_conn_param p = {.qp_num = 77};
	vb_handle client = new_resolved(&b, RDMA_PS_TCP, CLIENT, SA(at));
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	drain(&a, n);
	struct vb_cm_event *ev = WANT_EVENT(&a, LISTENER, RDMA_CM_EVENT_CONNECT_REQUEST);
	vb_handle server = ev->new_id;
	free(ev);
	/* That its peer gives up, before the next one asks, is not told. */
	CALL(0, e->cm_migrate(server, b.handle));
	CALL(0, e->cm_id_adopt(server, CLIENT + 1));
	CALL(0, e->cm_id_destroy(client));
	client = new_resolved(&b, RDMA_PS_TCP, CLIENT, SA(at));
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	ev = WANT_EVENT(&a, LISTENER, RDMA_CM_EVENT_CONNECT_REQUEST);
	CALL(0, e->cm_id_destroy(ev->new_id));
	free(ev);
	free(WANT_EVENT(&b, CLIENT, RDMA_CM_EVENT_REJECTED));
	CALL(EINVAL, e->cm_accept(server, &p, &(struct ibv_ece){ 0 }));
	CHECK(!next_event(&a, 0) && !next_event(&b, 0));
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->cm_id_destroy(server));

	n = fill(&a);
	client = new_resolved(&b, RDMA_PS_TCP, CLIENT, SA(at));
	CALL(0, e->cm_connect(client, &p, &(struct ibv_ece){ 0 }));
	CHECK(!next_event(&b, 100)); /* the request has come, or comes to a listener that is gone */
	CALL(0, e->cm_id_destroy(listener));
	free(WANT_EVENT(&b, CLIENT, RDMA_CM_EVENT_REJECTED));
	drain(&a, n);
	CHECK(!next_event(&a, 0));

	/* An identifier stays where it is if the new channel is gone. The channel that it left may
	 * go. */
	dead = new_channel();
	CALL(0, e->cm_channel_destroy(dead.handle));
	CALL(EINVAL, e->cm_migrate(client, dead.handle));
	CALL(EINVAL, e->cm_id_create(dead.handle, RDMA_PS_TCP, 1, &none));
	for (int i = 0; i < 4; i++)
		CALL(i == 1 ? EINVAL : 0, e->cm_id_destroy(id[i]));
	CALL(0, e->cm_id_destroy(client));
	CALL(0, e->cm_channel_destroy(a.handle));
	CALL(0, e->cm_channel_destroy(b.handle));
	printf("ok\n");
	return 0;
}
