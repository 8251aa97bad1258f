/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory, ibv_alloc_dm(3), and the null region, ibv_alloc_null_mr(3): memory that is not the
 * application's.
 */
#include "loop.h"

#include <stdint.h>

#define BYTES_OF_DM 8192

static struct ibv_context *ctx;

static void bounds(struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr attr = {.length = 0};
	struct ibv_context *other = open_loopback();
	struct ibv_device_attr_ex limits;
	struct ibv_pd *foreign;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	char some[16];

	MUST(!ibv_query_device_ex(ctx, NULL, &limits));
	CHECK(limits.max_dm_size >= BYTES_OF_DM);
	REFUSED(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.length = limits.max_dm_size + 1;
	REFUSED(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 40};
	REFUSED(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.log_align_req = 25; /* more than the largest allocation */
	REFUSED(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.log_align_req = UINT32_MAX;
	REFUSED(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){.length = 64, .comp_mask = 1};
	REFUSED(ibv_alloc_dm(ctx, &attr), EOPNOTSUPP);
	attr = (struct ibv_alloc_dm_attr){.length = limits.max_dm_size};
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	EQUAL(ibv_free_dm(dm), 0);

	attr = (struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 16};
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	EQUAL(ibv_memcpy_to_dm(dm, 2, some, 4), EINVAL); /* not whole words */
	EQUAL(ibv_memcpy_to_dm(dm, 0, some, 3), EINVAL);
	EQUAL(ibv_memcpy_to_dm(dm, 60, some, 8), EFAULT);
	EQUAL(ibv_memcpy_from_dm(some, dm, UINT64_MAX - 3, 8), EFAULT);
	memset(some, 'x', sizeof(some));
	EQUAL(ibv_memcpy_from_dm(some, dm, 0, sizeof(some)), 0);
	for (size_t i = 0; i < sizeof(some); i++)
		EQUAL(some[i], 0);

	REFUSED(ibv_reg_dm_mr(pd, dm, 0, 64, ALL_ACCESS), EINVAL); /* not zero-based */
	REFUSED(ibv_reg_dm_mr(pd, dm, 0, 65, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), EINVAL);
	REFUSED(ibv_reg_dm_mr(pd, dm, 65, 0, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), EINVAL);
	REFUSED(ibv_reg_dm_mr(pd, dm, 0, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND), EINVAL);
	MUST(foreign = ibv_alloc_pd(other));
	REFUSED(ibv_reg_dm_mr(foreign, dm, 0, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), EINVAL);
	EQUAL(ibv_dealloc_pd(foreign), 0);
	EQUAL(ibv_close_device(other), 0);

	MUST(mr = ibv_reg_dm_mr(pd, dm, 8, 56, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	EQUAL(mr->length, 56);
	EQUAL(ibv_free_dm(dm), EBUSY);
	errno = 0;
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EINVAL);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_free_dm(dm), 0);
}

/* Regions of no bytes permit nothing. They may be at any offset, the end included. */
static void no_bytes(struct ibv_pd *pd)
{
	const uint64_t offsets[] = {0, 1, 4095, 4096, 8191, 8192};
	struct ibv_alloc_dm_attr attr = {.length = 8192, .log_align_req = 24};
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	MUST(dm = ibv_alloc_dm(ctx, &attr));
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		MUST(mr = ibv_reg_dm_mr(pd, dm, offsets[i], 0, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
		EQUAL(mr->length, 0);
		EQUAL(ibv_dereg_mr(mr), 0);
	}
	EQUAL(ibv_free_dm(dm), 0);
}

/* One request of a, whose memory is an element. */
static void request(struct end *a, enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t remote, uint32_t rkey, enum ibv_wc_status want)
{
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	EQUAL(ibv_post_send(a->qp, &wr, &bad), 0);
	WANT_WC(a->cq, 7, want);
}

/* A peer writes, adds to and reads device memory; a request of its owner takes it. */
static void traffic(void)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES_OF_DM};
	struct ibv_send_wr add = {.wr_id = 3, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_mr *mr, *part;
	struct ibv_sge sge;
	struct ibv_dm *dm;
	struct end a, b;
	char got[4096];
	uint64_t word;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	MUST(mr = ibv_reg_dm_mr(b.pd, dm, 0, BYTES_OF_DM, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	MUST(part = ibv_reg_dm_mr(b.pd, dm, 4096, 16, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	for (int i = 0; i < 4096; i++)
		a.buf[i] = (char)(i * 7);
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 4096, .lkey = a.mr->lkey};
	request(&a, IBV_WR_RDMA_WRITE, sge, 100, mr->rkey, IBV_WC_SUCCESS);
	EQUAL(ibv_memcpy_from_dm(got, dm, 100, sizeof(got)), 0);
	CHECK(!memcmp(got, a.buf, sizeof(got)));

	word = 40;
	EQUAL(ibv_memcpy_to_dm(dm, 4096 + 8, &word, sizeof(word)), 0);
	sge.length = 8;
	add.sg_list = &sge;
	add.wr.atomic.remote_addr = 8;
	add.wr.atomic.rkey = part->rkey;
	add.wr.atomic.compare_add = 2;
	EQUAL(ibv_post_send(a.qp, &add, &bad), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	EQUAL(*(uint64_t *)a.buf, 40);
	EQUAL(ibv_memcpy_from_dm(&word, dm, 4096 + 8, sizeof(word)), 0);
	EQUAL(word, 42);

	/* Its owner's request takes bytes of it to the peer. */
	request(&b, IBV_WR_RDMA_WRITE, (struct ibv_sge){.addr = 8, .length = 8, .lkey = part->lkey}, (uintptr_t)a.buf, a.mr->rkey, IBV_WC_SUCCESS);
	EQUAL(*(uint64_t *)a.buf, 42);
	request(&a, IBV_WR_RDMA_READ, sge, 12, part->rkey, IBV_WC_REM_ACCESS_ERR); /* 4 bytes too far */
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dereg_mr(part), 0);
	EQUAL(ibv_free_dm(dm), 0);
	unpair(&a, &b);
}

/* A null region takes any bytes, of any address, and gives zeros; peers cannot use it. */
static void null_region(void)
{
	const uint64_t addresses[] = {0, 1, (uintptr_t)&addresses, (uint64_t)1 << 63, UINT64_MAX - 8, UINT64_MAX};
	struct ibv_sge sges[3];
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = sges, .num_sge = 3}, *bad;
	struct ibv_mr *null;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(null = ibv_alloc_null_mr(a.pd));
	EQUAL(null->length, SIZE_MAX);
	errno = 0;
	EQUAL(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EINVAL);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct ibv_sge sge = {.addr = addresses[i], .length = 30000, .lkey = null->lkey};

		memset(b.buf, 'b', 30000);
		request(&a, IBV_WR_RDMA_READ, sge, (uintptr_t)b.buf, b.mr->rkey, IBV_WC_SUCCESS);
		request(&a, IBV_WR_RDMA_WRITE, sge, (uintptr_t)b.buf, b.mr->rkey, IBV_WC_SUCCESS);
		for (int k = 0; k < 30000; k++)
			EQUAL(b.buf[k], 0);
	}
	/* A receive keeps 4 bytes of a message's middle. */
	memset(a.buf, 0, 16);
	sges[0] = (struct ibv_sge){.addr = 77, .length = 8, .lkey = null->lkey};
	sges[1] = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 4, .lkey = a.mr->lkey};
	sges[2] = (struct ibv_sge){.addr = 0, .length = 100, .lkey = null->lkey};
	EQUAL(ibv_post_recv(a.qp, &recv, &bad), 0);
	memcpy(b.buf, "unwanted" "this" "and all the rest", 28);
	EQUAL(post_send(&b, 1, 0, 28), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 9, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, "this\0\0\0\0", 8));
	EQUAL(null->rkey, 0);
	EQUAL(post_rdma(&b, IBV_WR_RDMA_WRITE, 2, 8, 0, null->lkey), 0); /* whose number it is */
	WANT_WC(b.cq, 2, IBV_WC_REM_ACCESS_ERR);
	EQUAL(ibv_dereg_mr(null), 0);
	unpair(&a, &b);
}

int main(void)
{
	struct ibv_pd *pd;

	ctx = open_loopback();
	MUST(pd = ibv_alloc_pd(ctx));
	bounds(pd);
	no_bytes(pd);
	EQUAL(ibv_dealloc_pd(pd), 0);
	traffic();
	null_region();
	return finish(ctx);
}
