/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Synchronous mode, with everything that rdma_verbs.h has inline: endpoints of
 * rdma_create_ep exchange messages, a READ and a WRITE.
 */
#include "cm.h"

#include <pthread.h>

struct region {
	uint64_t addr;
	uint32_t rkey;
	char data[16];
};

static const char *address;
static char port[8] = "0"; /* the server chooses */
static pthread_barrier_t listening;

static struct rdma_addrinfo *info(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;

	CHECK(rdma_getaddrinfo(address, port, &hints, &res) == 0);
	return res;
}

static void take(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	CHECK(rdma_get_recv_comp(id, wc) == 1);
	CHECK(wc->status == IBV_WC_SUCCESS);
}

static void sent(struct rdma_cm_id *id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	CHECK(rdma_get_send_comp(id, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

static void *serve(void *arg)
{
	struct rdma_addrinfo *res = info(RAI_PASSIVE);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_id *listener, *id;
	struct region shared = { .data = "from the server" }, message;
	struct ibv_mr *message_mr, *read_mr, *write_mr;
	struct ibv_wc wc;
	char target[16] = "";

	(void)arg;
	CHECK(rdma_create_ep(&listener, res, NULL, &attr) == 0);
	CHECK(rdma_listen(listener, 0) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	pthread_barrier_wait(&listening);
	CHECK(rdma_get_request(listener, &id) == 0);
	CHECK(id->qp && id->verbs && id->pd && id->send_cq && id->recv_cq && id->send_cq_channel && id->recv_cq_channel);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST && id->event->listen_id == listener);
	message_mr = rdma_reg_msgs(id, &message, sizeof(message));
	read_mr = rdma_reg_read(id, &shared, sizeof(shared));
	write_mr = rdma_reg_write(id, target, sizeof(target));
	CHECK(message_mr && read_mr && write_mr);
	CHECK(rdma_post_recv(id, (void *)1, &message, sizeof(message), message_mr) == 0);
	CHECK(id->qp->state == IBV_QPS_INIT);
	CHECK(rdma_accept(id, NULL) == 0);
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(id->qp->state == IBV_QPS_RTS);

	take(id, &wc);
	CHECK(wc.wr_id == 1 && wc.byte_len == 5 && memcmp(&message, "hello", 5) == 0);
	CHECK(rdma_post_recv(id, (void *)2, &message, sizeof(message), message_mr) == 0);
	/* Inline, from memory that is not registered: where to read from and write to. */
	struct region *where = (struct region *)malloc(sizeof(*where));
	where->addr = (uintptr_t)&shared;
	where->rkey = read_mr->rkey;
	CHECK(rdma_post_send(id, NULL, where, 12, NULL, IBV_SEND_INLINE) == 0);
	sent(id, IBV_WC_SEND);
	where->addr = (uintptr_t)target;
	where->rkey = write_mr->rkey;
	CHECK(rdma_post_send(id, NULL, where, 12, NULL, IBV_SEND_INLINE) == 0);
	sent(id, IBV_WC_SEND);
	free(where);
	take(id, &wc);
	CHECK(strcmp(target, "from the client") == 0);

	CHECK(rdma_disconnect(id) == 0);
	CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK(id->qp->state == IBV_QPS_ERR);
	CHECK(rdma_dereg_mr(message_mr) == 0 && rdma_dereg_mr(read_mr) == 0 && rdma_dereg_mr(write_mr) == 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(res);
	return NULL;
}

static void client(void)
{
	struct rdma_addrinfo *res = info(0);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_id *id;
	struct ibv_sa_path_rec *path;
	struct region where[2];
	char local[32] = "hello";
	struct ibv_mr *mr, *where_mr;
	struct ibv_wc wc;

	CHECK(rdma_create_ep(&id, res, NULL, &attr) == 0);
	CHECK(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq);
	CHECK(id->port_num == 1 && id->ps == RDMA_PS_TCP && id->qp_type == IBV_QPT_RC);
	CHECK(id->route.num_paths == 1);
	path = id->route.path_rec;
	CHECK(path->mtu >= IBV_MTU_256 && path->mtu <= IBV_MTU_4096 && path->pkey == 0xffff && path->numb_path == 1);
	CHECK(memcmp(&path->sgid, &id->route.addr.addr.ibaddr.sgid, 16) == 0);
	CHECK(memcmp(&path->dgid, &id->route.addr.addr.ibaddr.dgid, 16) == 0);
	CHECK(rdma_get_dst_port(id) == htons(atoi(port)));
	CHECK(rdma_get_local_addr(id)->sa_family == AF_INET && rdma_get_peer_addr(id)->sa_family == AF_INET);
	mr = rdma_reg_msgs(id, local, sizeof(local));
	where_mr = rdma_reg_msgs(id, where, sizeof(where));
	CHECK(mr && where_mr);
	for (int i = 0; i < 2; i++)
		CHECK(rdma_post_recv(id, NULL, &where[i], sizeof(where[i]), where_mr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(id->qp->state == IBV_QPS_RTS);

	CHECK(rdma_post_send(id, NULL, local, 5, mr, 0) == 0);
	sent(id, IBV_WC_SEND);
	take(id, &wc);
	take(id, &wc);
	CHECK(rdma_post_read(id, NULL, local, 16, mr, 0, where[0].addr + offsetof(struct region, data), where[0].rkey) == 0);
	sent(id, IBV_WC_RDMA_READ);
	CHECK(strcmp(local, "from the server") == 0);
	strcpy(local, "from the client");
	CHECK(rdma_post_write(id, NULL, local, 16, mr, 0, where[1].addr, where[1].rkey) == 0);
	sent(id, IBV_WC_RDMA_WRITE);
	CHECK(rdma_post_send(id, NULL, local, 1, mr, 0) == 0);
	sent(id, IBV_WC_SEND);

	CHECK(rdma_disconnect(id) == 0);
	CHECK(rdma_dereg_mr(mr) == 0 && rdma_dereg_mr(where_mr) == 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

int main(int argc, char **argv)
{
	pthread_t server;

	CHECK(argc == 2);
	address = argv[1];
	pthread_barrier_init(&listening, NULL, 2);
	CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
	pthread_barrier_wait(&listening);
	client();
	pthread_join(server, NULL);
	return 0;
}
