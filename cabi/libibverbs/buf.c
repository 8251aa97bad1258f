/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of the library and regions by attributes, of rdma-core 64: ibv_alloc_buf(3),
 * ibv_reg_mr_ex(3). The buffers are ordinary memory, as with any provider without functions of its
 * own, and have no dma-buf.
 */
#include "dmah.h"
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#undef ibv_reg_mr_iova

/* Opaque to applications. */
struct ibv_buf {
	struct ibv_pd *pd;
	char *at;
	size_t size;
};

/* Laid out as in the <infiniband/verbs.h> of rdma-core 64. */
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

/* comp_mask. */
#define HAS_IOVA      (UINT64_C(1) << 0)
#define HAS_ADDR      (UINT64_C(1) << 1)
#define HAS_FD	      (UINT64_C(1) << 2)
#define HAS_FD_OFFSET (UINT64_C(1) << 3)
#define HAS_DMAH      (UINT64_C(1) << 4)
#define HAS_BUF	      (UINT64_C(1) << 5)
#define KNOWN	      (HAS_IOVA | HAS_ADDR | HAS_FD | HAS_FD_OFFSET | HAS_DMAH | HAS_BUF)

VB_EXPORT VB_RETURNS_POINTER(void *, ibv_alloc_buf,
			     (struct ibv_pd *pd, size_t size, struct ibv_buf **out),
			     (pd, size, out))
{
	struct ibv_buf *buf;
	void *at;
	int err;

	if (!pd || !out) {
		errno = EINVAL;
		return NULL;
	}
	buf = malloc(sizeof(*buf));
	if (!buf)
		return NULL;
	err = posix_memalign(&at, (size_t)sysconf(_SC_PAGESIZE), size);
	if (err) {
		free(buf);
		errno = err;
		return NULL;
	}
	*buf = (struct ibv_buf){.pd = pd, .at = at, .size = size};
	*out = buf;
	return at;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_free_buf, (struct ibv_buf *buf), (buf))
{
	if (!buf)
		return;
	free(buf->at);
	free(buf);
}

/* Ordinary memory has no descriptor. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_export_buf_dmabuf_fd, (struct ibv_buf *buf), (buf))
{
	(void)buf;
	errno = ENODATA;
	return -1;
}

/* Returns whether a region of the buffer may have these attributes. */
static int in_buf(const struct ibv_buf *buf, struct ibv_pd *pd, const struct ibv_mr_init_attr *attr)
{
	size_t offset;

	if (!buf || buf->pd != pd || (uintptr_t)attr->addr < (uintptr_t)buf->at)
		return 0;
	offset = (uintptr_t)attr->addr - (uintptr_t)buf->at;
	return offset <= buf->size && attr->length <= buf->size - offset;
}

/* Checks attributes: 0 or an errno. */
static int check(struct ibv_pd *pd, const struct ibv_mr_init_attr *attr)
{
	uint64_t has = attr->comp_mask;

	if (has & ~KNOWN)
		return EOPNOTSUPP;
	/* Hints are for pages that a device may keep. */
	if ((has & HAS_DMAH) && (!attr->dmah || attr->dmah->context != pd->context ||
				 (attr->access & IBV_ACCESS_ON_DEMAND)))
		return EINVAL;
	if (has & HAS_FD) {
		if ((has & HAS_ADDR) || (has & HAS_BUF) || !(has & HAS_FD_OFFSET) || !(has & HAS_IOVA))
			return EINVAL;
		return 0;
	}
	if (!(has & HAS_ADDR) || (has & HAS_FD_OFFSET))
		return EINVAL;
	return (has & HAS_BUF) && !in_buf(attr->buf, pd, attr) ? EINVAL : 0;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_mr_ex,
			     (struct ibv_pd *pd, struct ibv_mr_init_attr *attr), (pd, attr))
{
	int err = pd && attr ? check(pd, attr) : EINVAL;

	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->comp_mask & HAS_FD)
		return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					 attr->access);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
				attr->comp_mask & HAS_IOVA ? attr->iova : (uintptr_t)attr->addr,
				(unsigned)attr->access);
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_buf_mr,
	(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access),
	(pd, buf, addr, length, access))
{
	struct ibv_mr_init_attr attr = { .length = length,
					 .access = access,
					 .comp_mask = HAS_ADDR | HAS_BUF,
					 .addr = addr,
					 .buf = buf };

	return ibv_reg_mr_ex(pd, &attr);
}
