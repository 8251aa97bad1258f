/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers that the library allocates, and regions by attributes: ibv_alloc_buf(3)
 * and ibv_reg_mr_ex of rdma-core 64, as any provider without functions of its own
 * for them has them.
 */
#define _GNU_SOURCE
#include "loop.h"
#include "newer.h"

#include <sys/mman.h>
#include <unistd.h>

/* From rdma-core 64's <infiniband/verbs.h>. */
struct buf;
struct region {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct dmah *dmah;
	struct buf *buf;
};
enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32 };

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct buf **buf);
void ibv_free_buf(struct buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct region *attr);
int ibv_export_buf_dmabuf_fd(struct buf *buf);

#define SIZE 10000

static struct ibv_context *ctx;

#define ALLOW_CC_UNPROTECTED_ALLOC (1 << 2) /* of rdma-core 65 */

static void buffers(void)
{
	struct buf *from = NULL, *to = NULL;
	struct ibv_mr *from_mr, *to_mr;
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_pd *parent;
	struct ibv_td *td;
	char *src, *dst;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(src = ibv_alloc_buf(a.pd, SIZE, &from));
	MUST(dst = ibv_alloc_buf(b.pd, SIZE, &to));
	EQUAL((uintptr_t)src % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	for (int i = 0; i < SIZE; i++)
		src[i] = (char)(i * 7);
	memset(dst, 0, SIZE);
	/* All of one, a part of the other. */
	MUST(from_mr = ibv_reg_buf_mr(a.pd, from, src, SIZE, 0));
	MUST(to_mr = ibv_reg_buf_mr(b.pd, to, dst + 100, SIZE - 200, ALL_ACCESS));
	CHECK(from_mr->addr == src && from_mr->length == SIZE && from_mr->pd == a.pd && from_mr->context == ctx);
	CHECK(to_mr->addr == dst + 100 && to_mr->length == SIZE - 200);

	struct ibv_sge sge = {.addr = (uintptr_t)src, .length = SIZE - 200, .lkey = from_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)dst + 100;
	wr.wr.rdma.rkey = to_mr->rkey;
	EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(src, dst + 100, SIZE - 200));
	CHECK(!dst[99] && !dst[SIZE - 100]);

	/* Not of the buffer, or not of its domain. */
	REFUSED(ibv_reg_buf_mr(a.pd, to, dst, SIZE, 0), EINVAL);
	REFUSED(ibv_reg_buf_mr(b.pd, to, dst - 1, SIZE, 0), EINVAL);
	REFUSED(ibv_reg_buf_mr(b.pd, to, dst, SIZE + 1, 0), EINVAL);
	REFUSED(ibv_reg_buf_mr(b.pd, to, dst + SIZE + 1, 0, 0), EINVAL);
	REFUSED(ibv_reg_buf_mr(b.pd, to, dst + 1, (size_t)-1, 0), EINVAL);
	errno = 0;
	EQUAL(ibv_export_buf_dmabuf_fd(to), -1);
	EQUAL(errno, ENODATA);
	REFUSED(ibv_alloc_buf(NULL, SIZE, &to), EINVAL);
	REFUSED(ibv_alloc_buf(a.pd, SIZE, NULL), EINVAL);
	REFUSED(ibv_alloc_buf(a.pd, (size_t)-1, &to), ENOMEM);
	REFUSED(ibv_reg_buf_mr(b.pd, NULL, dst, 1, 0), EINVAL);

	EQUAL(ibv_dereg_mr(from_mr), 0);
	EQUAL(ibv_dereg_mr(to_mr), 0);
	ibv_free_buf(from);
	ibv_free_buf(to);
	ibv_free_buf(NULL);

	/* A parent domain is a domain of its own here. It may ask for memory of confidential guests. */
	MUST(td = ibv_alloc_td(ctx, &td_attr));
	struct ibv_parent_domain_init_attr attr = {.pd = a.pd, .td = td, .comp_mask = ALLOW_CC_UNPROTECTED_ALLOC};

	MUST(parent = ibv_alloc_parent_domain(ctx, &attr));
	MUST(src = ibv_alloc_buf(parent, SIZE, &from));
	REFUSED(ibv_reg_buf_mr(a.pd, from, src, SIZE, 0), EINVAL);
	MUST(from_mr = ibv_reg_buf_mr(parent, from, src, SIZE, 0));
	EQUAL(ibv_dereg_mr(from_mr), 0);
	ibv_free_buf(from);
	EQUAL(ibv_dealloc_pd(parent), 0);
	EQUAL(ibv_dealloc_td(td), 0);
	unpair(&a, &b);
}

/* Hints of a DMA handle are checked, and change nothing. */
static void hints(struct ibv_pd *pd, struct region r)
{
	static const struct {
		struct dmah_attr attr;
		int err;
	} table[] = {
		{{0}, 0},
		{{DMAH_CPU_ID | DMAH_PH | DMAH_TPH_MEM_TYPE, 0, 3, 1}, 0},
		{{DMAH_CPU_ID, 0xffff, 0, 0}, EINVAL},
		{{DMAH_PH, 0, 4, 0}, EINVAL},
		{{DMAH_TPH_MEM_TYPE, 0, 0, 2}, EINVAL},
		{{DMAH_PH, 0xffff, 3, 200}, 0}, /* fields that the mask does not name do not count */
		{{8, 0, 0, 0}, EOPNOTSUPP},
	};
	struct ibv_context *other = open_loopback();
	struct dmah *dmah;
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct dmah_attr attr = table[i].attr;

		if (table[i].err) {
			REFUSED(ibv_alloc_dmah(ctx, &attr), table[i].err);
			continue;
		}
		MUST(dmah = ibv_alloc_dmah(ctx, &attr));
		r.comp_mask = ADDR | DMAH;
		r.dmah = dmah;
		MUST(mr = ibv_reg_mr_ex(pd, &r));
		EQUAL(ibv_dereg_mr(mr), 0);
		r.access |= IBV_ACCESS_ON_DEMAND;
		REFUSED(ibv_reg_mr_ex(pd, &r), EINVAL);
		r.access &= ~IBV_ACCESS_ON_DEMAND;
		EQUAL(ibv_dealloc_dmah(dmah), 0);
	}
	r.dmah = NULL;
	REFUSED(ibv_reg_mr_ex(pd, &r), EINVAL);
	struct dmah_attr attr = {0};

	MUST(r.dmah = ibv_alloc_dmah(other, &attr));
	REFUSED(ibv_reg_mr_ex(pd, &r), EINVAL);
	EQUAL(ibv_dealloc_dmah(r.dmah), 0);
	EQUAL(ibv_dealloc_dmah(NULL), EINVAL);
	REFUSED(ibv_alloc_dmah(NULL, &attr), EINVAL);
	REFUSED(ibv_alloc_dmah(ctx, NULL), EINVAL);
	EQUAL(ibv_close_device(other), 0);
}

static void regions(void)
{
	struct ibv_mr *mr;
	struct region r;
	struct buf *buf;
	struct end e;
	char *at;

	end_open(&e, ctx, NULL);
	r = (struct region){.length = 100, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, .comp_mask = ADDR, .addr = e.buf, .iova = 77};
	MUST(mr = ibv_reg_mr_ex(e.pd, &r)); /* fields that the mask does not name do not count */
	CHECK(mr->addr == e.buf && mr->length == 100);
	EQUAL(ibv_dereg_mr(mr), 0);
	r.comp_mask = ADDR | IOVA;
	r.iova = 0x10000;
	MUST(mr = ibv_reg_mr_ex(e.pd, &r));
	CHECK(mr->addr == e.buf);
	EQUAL(ibv_dereg_mr(mr), 0);

	MUST(at = ibv_alloc_buf(e.pd, SIZE, &buf));
	r.comp_mask = BUF | ADDR | IOVA;
	r.buf = buf;
	r.addr = at + 4;
	r.iova = 0x10004;
	MUST(mr = ibv_reg_mr_ex(e.pd, &r));
	CHECK(mr->addr == at + 4);
	EQUAL(ibv_dereg_mr(mr), 0);
	r.comp_mask = BUF;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	r.comp_mask = BUF | ADDR | FD;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	ibv_free_buf(buf);

	r.addr = e.buf;
	r.comp_mask = 0;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	r.comp_mask = ADDR | FD_OFFSET;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	r.comp_mask = FD | ADDR;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	r.comp_mask = FD | FD_OFFSET;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	r.comp_mask = FD | FD_OFFSET | IOVA; /* a dma-buf */
	r.fd = -1;
	r.iova = 4;
	r.fd_offset = 4;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EBADF);
	MUST((r.fd = memfd_create("dmabuf", MFD_CLOEXEC)) >= 0);
	MUST(!ftruncate(r.fd, SIZE));
	MUST(mr = ibv_reg_mr_ex(e.pd, &r));
	CHECK(mr->addr == (void *)4 && mr->length == 100);
	EQUAL(ibv_dereg_mr(mr), 0);
	close(r.fd);
	hints(e.pd, r);
	r.comp_mask = ADDR | 1 << 20;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EOPNOTSUPP);
	r.comp_mask = ADDR;
	REFUSED(ibv_reg_mr_ex(NULL, &r), EINVAL);
	REFUSED(ibv_reg_mr_ex(e.pd, NULL), EINVAL);
	r.access = 1 << 15;
	REFUSED(ibv_reg_mr_ex(e.pd, &r), EINVAL);
	end_close(&e, 1);
}

int main(void)
{
	ctx = open_loopback();
	buffers();
	regions();
	return finish(ctx);
}
