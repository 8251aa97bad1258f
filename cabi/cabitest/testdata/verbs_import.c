/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of another context by their handles: ibv_import_device(3), ibv_import_pd(3),
 * ibv_import_mr(3), ibv_import_dm(3). In one process, and in a process that has the descriptor by a
 * Unix socket.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a process says of its objects. */
struct handles {
	uint32_t pd, shared, rereg, private, dm, dm_region, part, gone;
};

/* -- in one process ------------------------------------------------------------------ */

static void refusals(struct ibv_context *ctx)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int alien = memfd_create("alien", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ibv_pd *pd;

	MUST(null >= 0 && small >= 0 && alien >= 0);
	REFUSED(ibv_import_device(-1), EBADF);
	REFUSED(ibv_import_device(null), EINVAL);
	EQUAL(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	REFUSED(ibv_import_device(small), EINVAL);
	EQUAL(ftruncate(alien, 64 << 20), 0);
	EQUAL(fcntl(alien, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	REFUSED(ibv_import_device(alien), EINVAL);
	/* They are still the program's own. */
	EQUAL(close(null), 0);
	EQUAL(close(small), 0);
	EQUAL(close(alien), 0);

	/* The size of the table is for ever. */
	EQUAL(ftruncate(ctx->cmd_fd, 0), -1);

	MUST(pd = ibv_alloc_pd(ctx));
	REFUSED(ibv_import_pd(ctx, 0), EINVAL);
	REFUSED(ibv_import_pd(ctx, UINT32_MAX), EINVAL);
	REFUSED(ibv_import_mr(pd, pd->handle), EINVAL); /* no region */
	REFUSED(ibv_import_dm(ctx, pd->handle), EINVAL);
	REFUSED(ibv_import_mr(NULL, 1), EINVAL);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

static struct ibv_context *imported(const struct ibv_context *ctx)
{
	struct ibv_context *other;
	int fd = dup(ctx->cmd_fd);

	MUST(fd >= 0);
	MUST(other = ibv_import_device(fd));
	CHECK(other != ctx && other->cmd_fd == fd && other->device == ctx->device);
	return other;
}

/* A queue pair of the imported domain, and the imported region: its memory moves both ways. */
static void in_one_process(struct ibv_context *ctx)
{
	struct ibv_context *other = imported(ctx);
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct end a, b, c;
	uint32_t handle;

	end_open(&a, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	end_open(&b, ctx, NULL); /* its domain and region are imported to c */
	c = b;
	c.ctx = other;
	MUST(c.pd = pd = ibv_import_pd(other, b.pd->handle));
	MUST(c.mr = mr = ibv_import_mr(pd, b.mr->handle));
	CHECK(pd->handle == b.pd->handle && mr->handle == b.mr->handle);
	CHECK(!mr->addr && mr->length == BYTES && mr->pd == pd && mr->context == other);
	MUST(c.cq = ibv_create_cq(other, 10, NULL, NULL, 0));
	end_qp(&c, IBV_QPT_RC);
	connect_qps(a.qp, c.qp);
	memcpy(a.buf, "to the imported region", 23);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 23, (uintptr_t)c.buf, mr->rkey), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(c.buf, a.buf));
	memcpy(c.buf, "from the imported region", 25);
	EQUAL(post_rdma(&c, IBV_WR_RDMA_WRITE, 2, 25, (uintptr_t)a.buf, a.mr->rkey), 0);
	WANT_WC(c.cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(c.buf, a.buf));

	/* The importing context lets go while a queue pair has the domain; the handles stay. */
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	EQUAL(ibv_destroy_qp(c.qp), 0);
	EQUAL(ibv_destroy_cq(c.cq), 0);
	MUST(pd = ibv_import_pd(other, b.pd->handle));
	MUST(mr = ibv_import_mr(pd, b.mr->handle));
	EQUAL(ibv_dereg_mr(mr), 0); /* its handle is the original's */
	MUST(mr = ibv_import_mr(pd, b.mr->handle));
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	handle = b.pd->handle;
	MUST(pd = ibv_import_pd(other, handle));
	EQUAL(ibv_dealloc_pd(pd), 0);

	/* The context that opened the device may import as well, and end first. */
	MUST(pd = ibv_alloc_pd(other));
	MUST(c.pd = ibv_import_pd(ctx, pd->handle));
	EQUAL(ibv_dealloc_pd(c.pd), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	end_close(&a, 1);
	end_close(&b, 1);
	EQUAL(ibv_close_device(other), 0);
}

/* There are more regions than a table has entries: the rest works, and has no handle. */
static void many(struct ibv_context *ctx)
{
	static char byte;
	static struct ibv_mr *mrs[20000];
	struct ibv_pd *pd;
	int without = 0;

	MUST(pd = ibv_alloc_pd(ctx));
	for (int i = 0; i < 20000; i++) {
		MUST(mrs[i] = ibv_reg_mr(pd, &byte, 1, 0));
		without += !mrs[i]->handle;
	}
	CHECK(without > 20000 - 16384 && without < 5000);
	for (int i = 0; i < 20000; i++)
		EQUAL(ibv_dereg_mr(mrs[i]), 0);
	MUST(mrs[0] = ibv_reg_mr(pd, &byte, 1, 0));
	CHECK(mrs[0]->handle);
	EQUAL(ibv_dereg_mr(mrs[0]), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

/* -- in another process ---------------------------------------------------------------- */

static void send_fd(int to, int fd, const struct handles *h)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec data = {.iov_base = (void *)h, .iov_len = sizeof(*h)};
	struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	EQUAL(sendmsg(to, &m, 0), sizeof(*h));
}

static int receive_fd(int from, struct handles *h)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = {.iov_base = h, .iov_len = sizeof(*h)};
	struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int fd;

	EQUAL(recvmsg(from, &m, MSG_CMSG_CLOEXEC), sizeof(*h));
	MUST(m.msg_controllen >= CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

#define SHARED_BYTES 65536

/* The child: its objects stand for those of the parent. */
static void import(int from, char *shared)
{
	struct handles h;
	struct ibv_context *ctx;
	struct ibv_mr *mr, *rereg, *memory;
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct end a, b;
	char got[8] = "";

	MUST(ctx = ibv_import_device(receive_fd(from, &h)));
	MUST(pd = ibv_import_pd(ctx, h.pd));
	REFUSED(ibv_import_mr(pd, h.private), EFAULT); /* it is not here */
	REFUSED(ibv_import_mr(pd, h.dm_region), EFAULT); /* not yet */
	REFUSED(ibv_import_mr(pd, h.part), EFAULT);
	REFUSED(ibv_import_mr(pd, h.gone), EINVAL);
	MUST(mr = ibv_import_mr(pd, h.shared));
	MUST(rereg = ibv_import_mr(pd, h.rereg));
	EQUAL(mr->length, 4096);
	EQUAL(rereg->length, 100);
	MUST(dm = ibv_import_dm(ctx, h.dm));
	EQUAL(ibv_memcpy_from_dm(got, dm, 8, 8), 0);
	CHECK(!strcmp(got, "parent"));
	MUST(memory = ibv_import_mr(pd, h.dm_region));

	/* A peer of the child writes to the regions. Their address is that of the parent. */
	end_open(&a, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	b = (struct end){.ctx = ctx, .pd = pd, .cq = a.cq};
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	memcpy(a.buf, "child", 6);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 6, 5000, mr->rkey), 0); /* its iova is 4096 */
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(shared + 8192 + 904, "child"));
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 6, (uintptr_t)shared + 200, rereg->rkey), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 6, 16, memory->rkey), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	EQUAL(ibv_destroy_qp(b.qp), 0);
	ibv_unimport_mr(mr);
	ibv_unimport_mr(rereg);
	ibv_unimport_mr(memory);
	ibv_unimport_dm(dm);
	ibv_unimport_pd(pd);
	end_close(&a, 1);
	EQUAL(ibv_close_device(ctx), 0);
}

static void between_processes(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 5000, .log_align_req = 16};
	char *shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char own[100], *half, got[8];
	struct ibv_mr *mr, *rereg, *private, *memory, *part, *gone;
	struct ibv_context *ctx;
	struct handles h;
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	int ends[2], status;
	pid_t pid;

	MUST(shared != MAP_FAILED);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		import(ends[1], shared);
		_exit(failures != 0);
	}
	close(ends[1]);
	ctx = open_loopback();
	MUST(pd = ibv_alloc_pd(ctx));
	MUST(mr = ibv_reg_mr_iova(pd, shared + 8192, 4096, 4096, ALL_ACCESS));
	MUST(rereg = ibv_reg_mr(pd, own, 10, IBV_ACCESS_LOCAL_WRITE));
	EQUAL(ibv_rereg_mr(rereg, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, shared + 200, 100,
			   ALL_ACCESS), 0);
	MUST(private = ibv_reg_mr(pd, own, sizeof(own), ALL_ACCESS));
	/* Of this memory the child has mapped none. */
	half = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(half != MAP_FAILED);
	MUST(part = ibv_reg_mr(pd, half, 8192, ALL_ACCESS));
	MUST(gone = ibv_reg_mr(pd, own, sizeof(own), ALL_ACCESS));
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	EQUAL(ibv_memcpy_to_dm(dm, 8, "parent\0", 8), 0);
	MUST(memory = ibv_reg_dm_mr(pd, dm, 8, 100, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	h = (struct handles){.pd = pd->handle, .shared = mr->handle, .rereg = rereg->handle, .private = private->handle,
			     .dm = dm->handle, .dm_region = memory->handle, .part = part->handle, .gone = gone->handle};
	EQUAL(ibv_dereg_mr(gone), 0);
	send_fd(ends[0], ctx->cmd_fd, &h);
	EQUAL(waitpid(pid, &status, 0), pid);
	EQUAL(status, 0);
	CHECK(!strcmp(shared + 8192 + 904, "child"));
	CHECK(!strcmp(shared + 200, "child"));
	EQUAL(ibv_memcpy_from_dm(got, dm, 24, 8), 0);
	CHECK(!strcmp(got, "child"));
	EQUAL(ibv_dereg_mr(memory), 0);
	EQUAL(ibv_free_dm(dm), 0);
	EQUAL(ibv_dereg_mr(part), 0);
	EQUAL(ibv_dereg_mr(private), 0);
	EQUAL(ibv_dereg_mr(rereg), 0);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	EQUAL(ibv_close_device(ctx), 0);
	close(ends[0]);
	munmap(half, 8192);
	munmap(shared, SHARED_BYTES);
}

int main(void)
{
	struct ibv_context *ctx;

	between_processes(); /* its fork comes before the engine's threads */
	ctx = open_loopback();
	refusals(ctx);
	in_one_process(ctx);
	many(ctx);
	return finish(ctx);
}
