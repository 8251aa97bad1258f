/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Imported objects whose originals end, forked children that end a parent's object, and a limit of
 * the size of files: no key reaches other memory, and no object is taken from its owner.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *imported(const struct ibv_context *ctx)
{
	struct ibv_context *other;

	MUST(other = ibv_import_device(dup(ctx->cmd_fd)));
	return other;
}

/* Without room for the table, a device opens, and its objects have no handles. */
static void limited(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct rlimit before, low;
	struct ibv_context *ctx, *old = open_loopback();
	struct ibv_pd *pd;

	MUST(getrlimit(RLIMIT_FSIZE, &before) == 0);
	low = before;
	low.rlim_cur = 4096;
	MUST(setrlimit(RLIMIT_FSIZE, &low) == 0);
	ctx = open_loopback();
	MUST(pd = ibv_alloc_pd(ctx));
	EQUAL(pd->handle, 0);
	CHECK(ctx->cmd_fd >= 0);
	REFUSED(ibv_alloc_dm(ctx, &attr), ENOMEM);
	REFUSED(ibv_import_device(ctx->cmd_fd), EINVAL);
	EQUAL(ibv_dealloc_pd(pd), 0);
	EQUAL(ibv_close_device(ctx), 0);
	REFUSED(ibv_alloc_dm(old, &attr), ENOMEM);
	MUST(setrlimit(RLIMIT_FSIZE, &before) == 0);
	EQUAL(ibv_close_device(old), 0);
}

/* A child cannot end the device memory of its parent. */
static void forked(struct ibv_context *ctx)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm, *again;
	char got[8] = "";
	int status;
	pid_t pid;

	MUST(dm = ibv_alloc_dm(ctx, &attr));
	EQUAL(ibv_memcpy_to_dm(dm, 0, "parent\0", 8), 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		EQUAL(ibv_free_dm(dm), EIO);
		_exit(failures != 0);
	}
	EQUAL(waitpid(pid, &status, 0), pid);
	EQUAL(status, 0);
	EQUAL(ibv_memcpy_from_dm(got, dm, 0, 8), 0);
	CHECK(!strcmp(got, "parent"));
	MUST(again = ibv_import_dm(ctx, dm->handle));
	ibv_unimport_dm(again);
	EQUAL(ibv_free_dm(dm), 0);
}

/* The memory of an imported region stays mapped when the original's and the device memory end. */
static void outlived(struct ibv_context *ctx)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_context *other = imported(ctx);
	struct ibv_mr *original, *mr, *buffer, *of_buffer;
	struct ibv_dm *dm, *theirs;
	struct end a, b;
	int fd = memfd_create("buffer", MFD_CLOEXEC);
	char *seen;

	MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
	MUST((seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0)) != MAP_FAILED);
	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	MUST(original = ibv_reg_dm_mr(b.pd, dm, 0, 4096, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	MUST(buffer = ibv_reg_dmabuf_mr(b.pd, 0, 4096, 0, fd, ALL_ACCESS));
	MUST(theirs = ibv_import_dm(other, dm->handle));
	MUST(mr = ibv_import_mr(b.pd, original->handle));
	MUST(of_buffer = ibv_import_mr(b.pd, buffer->handle));
	EQUAL(ibv_dereg_mr(original), 0);
	EQUAL(ibv_dereg_mr(buffer), 0);
	ibv_unimport_dm(theirs);
	EQUAL(ibv_free_dm(dm), 0);
	memcpy(a.buf, "kept", 5);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 5, 8, mr->rkey), 0);
	WANT_WC(a.cq, 1, IBV_WC_SUCCESS);
	memset(a.buf, 0, 5);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_READ, 2, 5, 8, mr->rkey), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(a.buf, "kept"));
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 5, 8, of_buffer->rkey), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	CHECK(!strcmp(seen + 8, "kept"));
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dereg_mr(of_buffer), 0);
	unpair(&a, &b);
	EQUAL(ibv_close_device(other), 0);
	munmap(seen, 4096);
	close(fd);
}

/* A handle ends with its object, and an imported object leaves it alone. */
static void handles(struct ibv_context *ctx)
{
	static char bytes[64];
	struct ibv_mr *mr, *twice;
	struct ibv_pd *pd;
	uint32_t stale;

	MUST(pd = ibv_alloc_pd(ctx));
	MUST(mr = ibv_reg_mr(pd, bytes, sizeof(bytes), ALL_ACCESS));
	MUST(twice = ibv_import_mr(pd, mr->handle));
	EQUAL(ibv_dereg_mr(twice), 0);
	MUST(twice = ibv_import_mr(pd, mr->handle));
	ibv_unimport_mr(twice);
	stale = mr->handle;
	EQUAL(ibv_dereg_mr(mr), 0);
	for (int i = 0; i < 16384; i++) { /* its entry comes around again */
		MUST(mr = ibv_reg_mr(pd, bytes, sizeof(bytes), ALL_ACCESS));
		CHECK(mr->handle != stale);
		EQUAL(ibv_dereg_mr(mr), 0);
	}
	REFUSED(ibv_import_mr(pd, stale), EINVAL);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[600];
	int n = 0;

	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "verbena-context") != NULL;
	fclose(f);
	return n;
}

/* Device memory ends with its last region. */
static void nothing_left(struct ibv_context *ctx)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm, *theirs;
	int before;

	MUST(dm = ibv_alloc_dm(ctx, &attr));
	before = mappings();
	for (int i = 0; i < 10; i++) {
		struct ibv_context *other = imported(ctx);
		struct ibv_pd *pd;
		struct ibv_mr *mr;

		MUST(pd = ibv_alloc_pd(other));
		MUST(theirs = ibv_import_dm(other, dm->handle));
		MUST(mr = ibv_reg_dm_mr(pd, theirs, 0, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
		ibv_unimport_dm(theirs);
		ibv_unimport_mr(mr);
		EQUAL(ibv_dealloc_pd(pd), 0);
		EQUAL(ibv_close_device(other), 0);
	}
	EQUAL(mappings(), before);
	EQUAL(ibv_free_dm(dm), 0);
}

int main(void)
{
	struct ibv_context *ctx;

	alarm(120);
	ctx = open_loopback();
	forked(ctx);
	limited();
	outlived(ctx);
	handles(ctx);
	nothing_left(ctx);
	return finish(ctx);
}
