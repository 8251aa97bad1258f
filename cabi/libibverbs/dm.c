/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: ibv_alloc_dm(3), ibv_memcpy_to_dm(3), ibv_memcpy_from_dm(3). The device is the
 * process, so its memory is ordinary memory. Programs reach it by these functions and by regions.
 */
#include "dm.h"
#include "pd.h"
#include "query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies are of whole words, as other devices demand. */
#define WORD 4

static int check_copy(const struct vb_dm *dm, uint64_t offset, size_t length)
{
	if (!vb_engine_alive(dm->engine))
		return EIO;
	if (offset % WORD || length % WORD)
		return EINVAL;
	return vb_dm_has(dm, offset, length) ? 0 : EFAULT;
}

static VB_RETURNS_ERRNO(copy_to,
	(struct ibv_dm *ibdm, uint64_t offset, const void *host, size_t length),
	(ibdm, offset, host, length))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;
	int err = check_copy(dm, offset, length);

	if (!err)
		memcpy(dm->at + offset, host, length);
	return err;
}

static VB_RETURNS_ERRNO(copy_from,
	(void *host, struct ibv_dm *ibdm, uint64_t offset, size_t length),
	(host, ibdm, offset, length))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;
	int err = check_copy(dm, offset, length);

	if (!err)
		memcpy(host, dm->at + offset, length);
	return err;
}

/* Allocates zeroed pages: other memory of the program does not share them. */
static char *pages(size_t length, unsigned log_align)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), align = (size_t)1 << log_align;
	void *at;
	int err;

	if (align < page)
		align = page;
	length = (length + page - 1) & ~(page - 1);
	err = posix_memalign(&at, align, length);
	if (err) {
		errno = err;
		return NULL;
	}
	return memset(at, 0, length);
}

VB_RETURNS_POINTER(struct ibv_dm *, vb_alloc_dm,
	(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr), (ctx, attr))
{
	struct ibv_device_attr_ex limits;
	const struct vb_engine *engine;
	struct vb_dm *dm;
	vb_handle handle;
	int err;

	vb_device_attr(vb_context_of(ctx)->device, &limits);
	if (!attr || !attr->length || attr->length > limits.max_dm_size ||
	    attr->log_align_req > 63 || !(limits.max_dm_size >> attr->log_align_req))
		err = EINVAL;
	else
		err = attr->comp_mask ? EOPNOTSUPP : vb_enter(ctx, &engine, &handle);
	if (err) {
		errno = err;
		return NULL;
	}
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;
	dm->at = pages(attr->length, attr->log_align_req);
	if (!dm->at) {
		free(dm);
		return NULL;
	}
	dm->engine = engine;
	dm->length = attr->length;
	dm->dm.context = ctx;
	dm->dm.memcpy_to_dm = copy_to;
	dm->dm.memcpy_from_dm = copy_from;
	return &dm->dm;
}

int vb_dm_use(struct vb_dm *dm)
{
	unsigned n = atomic_load(&dm->regions);

	do {
		if (n == VB_DM_FREED)
			return EINVAL;
	} while (!atomic_compare_exchange_weak(&dm->regions, &n, n + 1));
	return 0;
}

VB_RETURNS_ERRNO(vb_free_dm, (struct ibv_dm *ibdm), (ibdm))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;
	unsigned none = 0;

	if (!dm)
		return EINVAL;
	if (!atomic_compare_exchange_strong(&dm->regions, &none, VB_DM_FREED))
		return EBUSY;
	free(dm->at);
	free(dm);
	return 0;
}
