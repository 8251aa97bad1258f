/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is unmapped while it is registered, as under a registration cache. A NIC has it
 * pinned, and so has rdma_rxe (LOOP_DEVICE=rxe0): peers' writes still arrive, where nobody sees
 * them. Here they go nowhere, and a request to read the memory fails.
 */
#include "loop.h"

#include <sys/mman.h>
#include <unistd.h>

static struct ibv_context *ctx;
static int over_rxe;
static size_t page;

/* Three pages; the second is no longer mapped. Nothing else is given addresses like these. */
struct target {
	char *map;
	struct ibv_mr *mr;
};

static void target_open(struct target *t, struct ibv_pd *pd)
{
	t->map = mmap((void *)0x410000000000, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(t->map != MAP_FAILED);
	MUST(t->mr = ibv_reg_mr(pd, t->map, 3 * page, ALL_ACCESS));
	MUST(munmap(t->map + page, page) == 0);
}

static void target_close(struct target *t)
{
	EQUAL(ibv_dereg_mr(t->mr), 0);
	MUST(munmap(t->map, 3 * page) == 0);
}

static int post(struct end *e, enum ibv_wr_opcode opcode, uint64_t id, struct target *t)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 8, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = (uintptr_t)t->map + page;
		wr.wr.rdma.rkey = t->mr->rkey;
	} else {
		wr.wr.atomic.remote_addr = (uintptr_t)t->map + page;
		wr.wr.atomic.rkey = t->mr->rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

/* The connection goes on, and mapped memory has its bytes. */
static void written(void)
{
	struct ibv_recv_wr recv = {.wr_id = 3, .num_sge = 1}, *bad;
	struct ibv_sge sge;
	struct target t;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	target_open(&t, b.pd);
	memset(a.buf, 'w', 3 * page);
	for (int i = 0; i < 3; i++) {
		EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, (uint32_t)(3 * page), (uintptr_t)t.map, t.mr->rkey), 0);
		WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	}
	CHECK(!memcmp(t.map, a.buf, page) && !memcmp(t.map + 2 * page, a.buf, page));

	/* A receive that nobody waits for any more. */
	sge = (struct ibv_sge){.addr = (uintptr_t)t.map + page, .length = 100, .lkey = t.mr->lkey};
	recv.sg_list = &sge;
	EQUAL(ibv_post_recv(b.qp, &recv, &bad), 0);
	EQUAL(post_send(&a, 2, 0, 100), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 3, IBV_WC_SUCCESS);

	/* A READ's result. */
	sge = (struct ibv_sge){.addr = (uintptr_t)t.map + page, .length = 100, .lkey = t.mr->lkey};
	struct ibv_send_wr read = {
		.wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	read.wr.rdma.remote_addr = (uintptr_t)a.buf;
	read.wr.rdma.rkey = a.mr->rkey;
	EQUAL(ibv_post_send(b.qp, &read, &bad_send), 0);
	WANT_WC(b.cq, 4, IBV_WC_SUCCESS);

	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 5, 100, (uintptr_t)b.buf, b.mr->rkey), 0);
	WANT_WC(a.cq, 5, IBV_WC_SUCCESS);
	CHECK(!memcmp(b.buf, a.buf, 100));

	/* Mapped anew the memory is the key's, but where it is pinned. */
	char *anew = mmap(t.map + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	MUST(anew == t.map + page);
	EQUAL(anew[0], 0);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 6, 100, (uintptr_t)anew, t.mr->rkey), 0);
	WANT_WC(a.cq, 6, IBV_WC_SUCCESS);
	EQUAL(anew[0], over_rxe ? 0 : 'w');
	/* It is not when the region was taken back. */
	uint32_t key = t.mr->rkey;

	target_close(&t);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 7, 100, (uintptr_t)anew, key), 0);
	WANT_WC(a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	unpair(&a, &b);
}

/* Nobody knows the old contents. */
static void looked_at(enum ibv_wr_opcode opcode, enum ibv_wc_status ours)
{
	struct target t;
	struct ibv_wc wc;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	target_open(&t, b.pd);
	memset(a.buf, 'x', 8);
	EQUAL(post(&a, opcode, 1, &t), 0);
	MUST(wait_wc(a.cq, &wc) == 1);
	if (wc.status != (over_rxe ? IBV_WC_SUCCESS : ours))
		failed(__FILE__, __LINE__, "opcode %d: %s", opcode, ibv_wc_status_str(wc.status));
	if (!over_rxe)
		CHECK(!memcmp(a.buf, "xxxxxxxx", 8));
	target_close(&t);
	unpair(&a, &b);
}

/* Memory that is mapped and may not be written: here the application would miss the bytes. */
static void protected(void)
{
	struct target t;
	struct ibv_wc wc;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	target_open(&t, b.pd);
	MUST(mprotect(t.map, page, PROT_READ) == 0);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 100, (uintptr_t)t.map, t.mr->rkey), 0);
	MUST(wait_wc(a.cq, &wc) == 1);
	EQUAL(wc.status, over_rxe ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	target_close(&t);
	unpair(&a, &b);
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	over_rxe = !strncmp(otherwise("LOOP_DEVICE", "roce_lo"), "rxe", 3);
	ctx = open_loopback();
	written();
	looked_at(IBV_WR_RDMA_READ, strncmp(otherwise("LOOP_DEVICE", "roce_lo"), "ntb", 3) ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR);
	looked_at(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR);
	looked_at(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_ACCESS_ERR);
	protected();
	return finish(ctx);
}
