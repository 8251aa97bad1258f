/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of a dma-buf: ibv_reg_dmabuf_mr(3). The buffer is a memfd, one of huge pages, and that of
 * udmabuf, where the kernel has these.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 4
#define BUFFER "dmabuf:" /* in the names of its mappings, those of udmabuf too */
#define ACCESS (ALL_ACCESS & ~IBV_ACCESS_MW_BIND)

static struct ibv_context *ctx;
static size_t page;

static int memory_file(void)
{
	int fd = memfd_create(BUFFER, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0);
	MUST(!ftruncate(fd, (off_t)(PAGES * page)));
	MUST(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)); /* as udmabuf demands */
	return fd;
}

static void refused(int fd)
{
	struct ibv_pd *pd;
	int ends[2], copy;
	char path[32];

	MUST(pd = ibv_alloc_pd(ctx));
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, page, 0, -1, ACCESS), EBADF);
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, ACCESS), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(pd, page, PAGES * page, page, fd, ACCESS), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(pd, UINT64_MAX, 2, UINT64_MAX, fd, ACCESS), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 16, 8, fd, ACCESS), EINVAL); /* another offset in the page */
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 16, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	REFUSED(ibv_reg_dmabuf_mr(NULL, 0, 16, 0, fd, ACCESS), EINVAL);
	MUST(!pipe(ends));
	REFUSED(ibv_reg_dmabuf_mr(pd, 0, 16, 0, ends[0], ACCESS), EINVAL); /* it has no size */
	close(ends[0]);
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = open(path, O_RDONLY);
	if (copy >= 0) { /* a memfd can be opened again */
		REFUSED(ibv_reg_dmabuf_mr(pd, 0, 16, 0, copy, ACCESS), EACCES);
		close(copy);
	}
	EQUAL(ibv_dealloc_pd(pd), 0);
}

/* Returns the number of mappings of a buffer. */
static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	MUST(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, BUFFER) != NULL;
	fclose(maps);
	return n;
}

/* The peer's bytes are in the buffer, and those of the buffer reach the peer, after fd is closed too. */
static void traffic(int fd, size_t bytes)
{
	const uint64_t offset = page + 100, iova = 0x770000000000 + 100;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_mr *mr;
	struct end a, b;
	char *view;

	MUST((view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mr = ibv_reg_dmabuf_mr(b.pd, offset, 2 * page, iova, fd, ACCESS));
	close(fd);
	EQUAL(mr->length, 2 * page);
	EQUAL((uintptr_t)mr->addr, offset);
	for (size_t i = 0; i < 2 * page; i++)
		a.buf[i] = (char)(i * 5 + 1);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, (uint32_t)(2 * page), iova, mr->rkey), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(view + offset, a.buf, 2 * page));
	memcpy(view + offset + 8, "from it.", 8);
	sge = (struct ibv_sge){.addr = iova + 8, .length = 8, .lkey = mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)a.buf;
	wr.wr.rdma.rkey = a.mr->rkey;
	EQUAL(ibv_post_send(b.qp, &wr, &bad), 0);
	WANT_WC(b.cq, 3, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, "from it.", 8));
	errno = 0;
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EINVAL);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 8, iova + 2 * page - 4, mr->rkey), 0); /* 4 bytes too far */
	WANT_WC(a.cq, 2, IBV_WC_REM_ACCESS_ERR);
	EQUAL(mappings(), 2);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(munmap(view, bytes), 0);
	EQUAL(mappings(), 0);
	unpair(&a, &b);
}

/* A region need not begin at a huge page, and goes as any other does. */
static void huge_pages(void)
{
	struct stat file;
	struct ibv_pd *pd;
	size_t bytes;
	void *view;
	int fd = memfd_create(BUFFER, MFD_CLOEXEC | MFD_HUGETLB);

	if (fd < 0) {
		fprintf(stderr, "no files of huge pages (%s): these are not tested\n", strerror(errno));
		return;
	}
	MUST(!fstat(fd, &file));
	bytes = 2 * (size_t)file.st_blksize;
	MUST(!ftruncate(fd, (off_t)bytes));
	view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (view != MAP_FAILED) {
		munmap(view, bytes);
		traffic(fd, bytes);
		return;
	}
	fprintf(stderr, "no free huge pages (%s): only the error is tested\n", strerror(errno));
	MUST(pd = ibv_alloc_pd(ctx));
	REFUSED(ibv_reg_dmabuf_mr(pd, page, page, 0, fd, ACCESS), ENOMEM);
	EQUAL(ibv_dealloc_pd(pd), 0);
	close(fd);
}

/* A udmabuf of the memory file's pages, or -1. */
static int kernels_own(int memory)
{
	struct udmabuf_create create = {.memfd = (uint32_t)memory, .flags = UDMABUF_FLAGS_CLOEXEC, .size = PAGES * page};
	int fd = -1, device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (device >= 0) {
		fd = ioctl(device, UDMABUF_CREATE, &create);
		close(device);
	}
	if (fd < 0)
		fprintf(stderr, "no udmabuf (%s): only a memfd is tested\n", strerror(errno));
	return fd;
}

int main(void)
{
	int fd, own;

	page = (size_t)sysconf(_SC_PAGESIZE);
	ctx = open_loopback();
	fd = memory_file();
	own = kernels_own(fd);
	refused(fd);
	traffic(fd, PAGES * page);
	if (own >= 0)
		traffic(own, PAGES * page);
	huge_pages();
	return finish(ctx);
}
