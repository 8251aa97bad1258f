/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: ibv_reg_mr(3) with IBV_ACCESS_ON_DEMAND, ibv_advise_mr(3). Memory need not be
 * mapped when it is registered. What needs a page that is not mapped fails, here as with rdma_rxe
 * (LOOP_DEVICE=rxe0).
 */
#include "loop.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define ON_DEMAND (ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

static struct ibv_context *ctx;
static size_t page;
static enum ibv_wc_status read_fault; /* of a READ of memory that is not mapped */

/* Where nothing else is mapped. */
static char *const nowhere = (char *)0x410000000000;

static void map(char *at, size_t bytes)
{
	MUST(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

static void capabilities(void)
{
	const unsigned all = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
			     IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex attr;

	MUST(!ibv_query_device_ex(ctx, NULL, &attr));
	EQUAL(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	EQUAL(attr.odp_caps.per_transport_caps.rc_odp_caps & all, all);
}

/* One request from a to memory of b's, and its status. */
static enum ibv_wc_status reaches(enum ibv_wr_opcode opcode, char *remote, struct ibv_mr *mr, struct end *a)
{
	struct ibv_wc wc;

	EQUAL(post_rdma(a, opcode, 1, 8, (uintptr_t)remote, mr->rkey), 0);
	MUST(wait_wc(a->cq, &wc) == 1);
	return wc.status;
}

static void remote(void)
{
	struct ibv_mr *mr;
	struct end a, b;

	for (int mapped = 0; mapped < 2; mapped++) {
		pair(&a, &b, ctx, IBV_QPT_RC);
		MUST(mr = ibv_reg_mr(b.pd, nowhere, 2 * page, ON_DEMAND));
		if (mapped)
			map(nowhere, page);
		memcpy(a.buf, "8 bytes.", 8);
		EQUAL(reaches(IBV_WR_RDMA_WRITE, nowhere + 16, mr, &a), mapped ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		if (mapped) {
			CHECK(!memcmp(nowhere + 16, "8 bytes.", 8));
			memcpy(nowhere + 24, "some one", 8);
			EQUAL(reaches(IBV_WR_RDMA_READ, nowhere + 24, mr, &a), IBV_WC_SUCCESS);
			CHECK(!memcmp(a.buf, "some one", 8));
			/* The second page never was. */
			EQUAL(reaches(IBV_WR_RDMA_WRITE, nowhere + page - 4, mr, &a), IBV_WC_REM_ACCESS_ERR);
			munmap(nowhere, page);
		}
		EQUAL(ibv_dereg_mr(mr), 0);
		unpair(&a, &b);
	}
}

/* A SEND from memory that is not mapped, and one to it. */
static void local(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)nowhere, .length = 8};
	struct ibv_recv_wr recv = {.wr_id = 4, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
	struct ibv_mr *mr;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_mr(a.pd, nowhere, page, ON_DEMAND));
	sge.lkey = mr->lkey;
	EQUAL(ibv_post_send(a.qp, &send, &bad_send), 0);
	WANT_WC(a.cq, 2, IBV_WC_LOC_PROT_ERR);
	EQUAL(ibv_dereg_mr(mr), 0);
	unpair(&a, &b);

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_mr(b.pd, nowhere, page, ON_DEMAND));
	sge.lkey = mr->lkey;
	EQUAL(ibv_post_recv(b.qp, &recv, &bad_recv), 0);
	EQUAL(post_send(&a, 3, 0, 8), 0);
	WANT_WC(b.cq, 4, IBV_WC_LOC_PROT_ERR);
	WANT_WC(a.cq, 3, IBV_WC_REM_OP_ERR);
	EQUAL(ibv_dereg_mr(mr), 0);
	unpair(&a, &b);
}

/* One region of the whole address space: what was mapped before, what came later, the stack. */
static void implicit(void)
{
	char on_stack[64] = "";
	struct ibv_mr *mr;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_mr(b.pd, NULL, SIZE_MAX, ON_DEMAND));
	CHECK(mr->addr == NULL && mr->length == SIZE_MAX);
	map(nowhere, page);
	char *on_heap = malloc(64);

	MUST(on_heap);
	memcpy(a.buf, "anywhere", 8);
	char *const places[] = {on_stack, on_heap, nowhere, nowhere + page - 8, b.buf};

	for (unsigned i = 0; i < LENGTH(places); i++) {
		EQUAL(reaches(IBV_WR_RDMA_WRITE, places[i], mr, &a), IBV_WC_SUCCESS);
		CHECK(!memcmp(places[i], "anywhere", 8));
	}
	/* The lkey of one end, and as many bytes as fit. */
	struct ibv_sge sge = {.addr = (uintptr_t)on_stack, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr send = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	EQUAL(post_recv(&a, 6, 0, 100), 0);
	EQUAL(ibv_post_send(b.qp, &send, &bad), 0);
	WANT_WC(b.cq, 5, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 6, IBV_WC_SUCCESS);
	EQUAL(ibv_dereg_mr(mr), 0);
	unpair(&a, &b);

	munmap(nowhere, page);
	free(on_heap);
	/* Nothing is there, or no application can have anything there. */
	const struct {
		enum ibv_wr_opcode opcode;
		char *at;
		enum ibv_wc_status status;
	} none[] = {
		{IBV_WR_RDMA_WRITE, nowhere, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_READ, nowhere, read_fault},
		{IBV_WR_RDMA_READ, NULL, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_WRITE, (char *)8, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_WRITE, (char *)0x7fffffffff000000, IBV_WC_REM_ACCESS_ERR},
		{IBV_WR_RDMA_READ, (char *)UINTPTR_MAX - 7, IBV_WC_REM_ACCESS_ERR},
	};

	for (unsigned i = 0; i < LENGTH(none); i++) {
		pair(&a, &b, ctx, IBV_QPT_RC);
		MUST(mr = ibv_reg_mr(b.pd, NULL, SIZE_MAX, ON_DEMAND));
		EQUAL(reaches(none[i].opcode, none[i].at, mr, &a), none[i].status);
		EQUAL(ibv_dereg_mr(mr), 0);
		unpair(&a, &b);
	}
}

static void refused(void)
{
	struct end e;

	end_open(&e, ctx, NULL);
	REFUSED(ibv_reg_mr(e.pd, NULL, SIZE_MAX, ALL_ACCESS), EINVAL); /* pinned */
	REFUSED(ibv_reg_mr(e.pd, NULL, SIZE_MAX, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND), EINVAL);
	REFUSED(ibv_reg_mr_iova(e.pd, NULL, SIZE_MAX, 4096, ON_DEMAND), EINVAL);
	REFUSED(ibv_reg_mr(e.pd, (void *)page, SIZE_MAX, ON_DEMAND), EINVAL); /* around the end */
	REFUSED(ibv_reg_mr(e.pd, nowhere, page, ALL_ACCESS), EFAULT);
	ibv_dereg_mr(e.mr);
	ibv_dealloc_pd(e.pd);
	ibv_destroy_cq(e.cq);
	free(e.buf);
}

static void advice(void)
{
	struct ibv_mr *mr, *readable, *all;
	struct ibv_pd *other;
	struct end e;

	end_open(&e, ctx, NULL);
	MUST(other = ibv_alloc_pd(ctx));
	map(nowhere, 2 * page);
	MUST(mr = ibv_reg_mr(e.pd, nowhere, 3 * page, ON_DEMAND));
	MUST(readable = ibv_reg_mr(e.pd, nowhere, page, IBV_ACCESS_ON_DEMAND));
	MUST(all = ibv_reg_mr(e.pd, NULL, SIZE_MAX, ON_DEMAND));
	const struct {
		const char *row;
		struct ibv_pd *pd;
		enum ibv_advise_mr_advice advice;
		uint32_t flags, lkey;
		char *at;
		size_t bytes;
		int err;
	} table[] = {
		{"read", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr->lkey, nowhere, page, 0},
		{"read only", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, readable->lkey, nowhere, page, 0},
		{"no fault", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, mr->lkey, nowhere, page, 0},
		{"write", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, mr->lkey, nowhere + 8, 2 * page - 8, 0},
		{"implicit", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, all->lkey, nowhere, page, 0},
		{"not mapped", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr->lkey, nowhere + page, 2 * page, EFAULT},
		{"not mapped, implicit", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, all->lkey, nowhere + 2 * page, 8, EFAULT},
		{"outside", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, readable->lkey, nowhere, page + 1, EFAULT},
		{"pinned", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, e.mr->lkey, e.buf, 8, EINVAL},
		{"no key", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr->lkey + 1, nowhere, 8, ENOENT},
		{"write where it may not", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, readable->lkey, nowhere, 8, EPERM},
		{"another domain", other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr->lkey, nowhere, 8, EPERM},
		{"unknown flag", e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, mr->lkey, nowhere, 8, EINVAL},
		{"unknown advice", e.pd, 7, 0, mr->lkey, nowhere, 8, EOPNOTSUPP},
		{"unknown advice", e.pd, 263, 0, mr->lkey, nowhere, 8, EOPNOTSUPP},
	};
	struct ibv_sge sge[2] = {{0}};

	for (size_t i = 0; i < LENGTH(table); i++) {
		sge[1] = (struct ibv_sge){(uintptr_t)table[i].at, (uint32_t)table[i].bytes, table[i].lkey};
		/* An element before it that is right, and does nothing. */
		sge[0] = (struct ibv_sge){(uintptr_t)nowhere, 0, mr->lkey};
		int two = table[i].pd == e.pd;
		int err = ibv_advise_mr(table[i].pd, table[i].advice, table[i].flags, sge + !two, 1 + (uint32_t)two);

		if (err != table[i].err)
			failed(__FILE__, __LINE__, "%s: %s, not %s", table[i].row, strerror(err), strerror(table[i].err));
	}
	EQUAL(ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
	EQUAL(ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, sge, 0), EINVAL);
	unsigned char in[2];

	MUST(!mincore(nowhere, 2 * page, in));
	CHECK(in[0] & in[1] & 1);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dereg_mr(readable), 0);
	EQUAL(ibv_dereg_mr(all), 0);
	munmap(nowhere, 2 * page);
	EQUAL(ibv_dealloc_pd(other), 0);
	ibv_dereg_mr(e.mr);
	ibv_dealloc_pd(e.pd);
	ibv_destroy_cq(e.cq);
	free(e.buf);
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	read_fault = strncmp(otherwise("LOOP_DEVICE", "roce_lo"), "ntb", 3) ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR;
	ctx = open_loopback();
	capabilities();
	remote();
	local();
	implicit();
	refused();
	advice();
	return finish(ctx);
}
