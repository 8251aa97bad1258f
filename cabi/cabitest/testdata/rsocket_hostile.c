/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that do not keep to the protocol: refused, or the stream ends with EPROTO. */
#include "rsocket.h"

#include <endian.h>
#include <rdma/rdma_cma.h>

/* The peer's table of buffers, which we tell of ours. */
static uint8_t table[2 * 16];

/* The private data of a request, as rsockets have it: big-endian. */
struct request {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t reserved[4];
	uint64_t table_addr;
	uint32_t table_key, table_length;
	uint64_t buffer_addr;
	uint32_t buffer_key, buffer_length;
};

static struct request good(struct ibv_mr *mr)
{
	return (struct request){ 1, 0, htobe16(8), { 0 }, htobe64((uintptr_t)table), htobe32(mr->rkey), htobe32(2), 0, 0, 0 };
}

static struct rdma_cm_id *resolved(const struct sockaddr_in *addr)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)addr, 2000) == 0);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	CHECK(rdma_create_qp(id, NULL, &init) == 0);
	for (int i = 0; i < 8; i++) {
		struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

		CHECK(ibv_post_recv(id->qp, &wr, &bad) == 0);
	}
	return id;
}

static int connect_with(struct rdma_cm_id *id, const struct request *request)
{
	struct rdma_conn_param param = {
		.private_data = request, .private_data_len = sizeof(*request), .retry_count = 7, .rnr_retry_count = 7
	};

	return rdma_connect(id, &param);
}

static struct ibv_mr *map_table(struct rdma_cm_id *id)
{
	struct ibv_mr *mr = ibv_reg_mr(id->qp->pd, table, sizeof(table), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	CHECK(mr);
	return mr;
}

static void end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	CHECK(ibv_dereg_mr(mr) == 0);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
}

static void refused(const struct sockaddr_in *addr, uint8_t version, uint32_t table_length)
{
	struct rdma_cm_id *id = resolved(addr);
	struct ibv_mr *mr = map_table(id);
	struct request request = good(mr);

	request.version = version;
	request.table_length = htobe32(table_length);
	CHECK_FAILS(connect_with(id, &request), ECONNREFUSED);
	end(id, mr);
}

static void say(struct rdma_cm_id *id, uint32_t msg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(msg) }, *bad;

	CHECK(ibv_post_send(id->qp, &wr, &bad) == 0);
}

/* The result that the application sees when a peer sends msg. */
static void ends_with(int listener, const struct sockaddr_in *addr, uint32_t msg)
{
	struct rdma_cm_id *id = resolved(addr);
	struct ibv_mr *mr = map_table(id);
	struct request request = good(mr);
	char byte;

	CHECK(connect_with(id, &request) == 0);
	int s = raccept(listener, NULL, NULL);

	CHECK(s >= 0);
	say(id, 7u << 29 | 77); /* controls that do not exist yet, */
	say(id, 6u << 29 | 9999); /* entries of no table, */
	say(id, 4u << 29 | 0x1fffffff); /* and credits without end change nothing */
	say(id, msg);
	CHECK_FAILS(rrecv(s, &byte, 1, 0), EPROTO);
	CHECK(rrecv(s, &byte, 1, 0) == 0); /* told once */
	CHECK_FAILS(rsend(s, &byte, 1, 0), EPIPE);
	CHECK(rclose(s) == 0);
	end(id, mr);
}

/* A false table: our writes there are refused. */
static void ends_without_table(int listener, const struct sockaddr_in *addr)
{
	struct rdma_cm_id *id = resolved(addr);
	struct ibv_mr *mr = map_table(id);
	struct request request = good(mr);
	char byte;

	request.table_key = 0;
	CHECK(connect_with(id, &request) == 0);
	int s = raccept(listener, NULL, NULL);

	CHECK(s >= 0);
	CHECK_FAILS(rrecv(s, &byte, 1, 0), ECONNRESET);
	CHECK(rclose(s) == 0);
	end(id, mr);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr;
	int listener = rs_listener(argv[1], &addr, 4);

	(void)argc;
	refused(&addr, 2, 2); /* another version */
	refused(&addr, 1, 1); /* a table too small for our messages */
	ends_with(listener, &addr, 0x1fffffff); /* more data than there is room for */
	ends_with(listener, &addr, 1u << 29 | 1); /* reserved types */
	ends_with(listener, &addr, 5u << 29 | 1);
	ends_without_table(listener, &addr);
	CHECK(rclose(listener) == 0);
	return 0;
}
