/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: ibv_alloc_dm(3), ibv_memcpy_to_dm(3), ibv_memcpy_from_dm(3), ibv_import_dm(3). The
 * device is the process, so its memory is ordinary memory, of the file of the context's table.
 * Programs reach it by these functions and by regions.
 */
#include "dm.h"
#include "pd.h"
#include "query.h"
#include "share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Returns the length of whole pages: other memory of the program does not share them. */
static uint64_t rounded(uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (length + page - 1) & ~(page - 1);
}

/* Returns a structure for memory at a place in the context's file, or NULL and errno. */
static struct vb_dm *at_place(struct ibv_context *ctx, const struct vb_engine *engine,
			      uint64_t place, uint64_t length, unsigned log_align)
{
	struct vb_dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->at = vb_share_map(ctx, place, rounded(length), log_align);
	if (!dm->at) {
		free(dm);
		return NULL;
	}
	dm->engine = engine;
	dm->length = length;
	dm->place = place;
	dm->dm.context = ctx;
	dm->dm.memcpy_to_dm = copy_to;
	dm->dm.memcpy_from_dm = copy_from;
	return dm;
}

VB_RETURNS_POINTER(struct ibv_dm *, vb_alloc_dm,
	(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr), (ctx, attr))
{
	struct ibv_device_attr_ex limits;
	const struct vb_engine *engine;
	struct vb_share memory = {0};
	struct vb_dm *dm;
	vb_handle handle;
	int err;

	vb_device_attr(vb_context_of(ctx)->device, &limits);
	if (!attr || !attr->length || attr->length > limits.max_dm_size ||
	    attr->log_align_req > 63 || !(limits.max_dm_size >> attr->log_align_req))
		err = EINVAL;
	else
		err = attr->comp_mask ? EOPNOTSUPP : vb_enter(ctx, &engine, &handle);
	if (!err)
		err = vb_share_grow(ctx, rounded(attr->length), &memory.addr);
	if (err) {
		errno = err;
		return NULL;
	}
	dm = at_place(ctx, engine, memory.addr, attr->length, attr->log_align_req);
	if (!dm)
		return NULL;
	memory.length = attr->length;
	memory.log_align = attr->log_align_req;
	dm->dm.handle = vb_share_add(ctx, VB_SHARE_DM, &memory);
	return &dm->dm;
}

/* The same memory as that of the handle. */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_dm *, ibv_import_dm,
	(struct ibv_context *ctx, uint32_t handle), (ctx, handle))
{
	struct ibv_device_attr_ex limits;
	const struct vb_engine *engine;
	struct vb_share memory;
	vb_handle opened;
	struct vb_dm *dm;
	int err = ctx ? vb_share_find(ctx, handle, VB_SHARE_DM, &memory) : EINVAL;

	if (!err) {
		vb_device_attr(vb_context_of(ctx)->device, &limits);
		if (!memory.length || memory.length > limits.max_dm_size ||
		    memory.log_align > 63 || !(limits.max_dm_size >> memory.log_align) ||
		    !vb_share_has(ctx, memory.addr, rounded(memory.length)))
			err = EINVAL;
	}
	if (!err)
		err = vb_enter(ctx, &engine, &opened);
	if (err) {
		errno = err;
		return NULL;
	}
	dm = at_place(ctx, engine, memory.addr, memory.length, memory.log_align);
	if (!dm)
		return NULL;
	dm->imported = 1;
	dm->dm.handle = handle;
	return &dm->dm;
}

int vb_dm_use(struct vb_dm *dm)
{
	unsigned n = atomic_load(&dm->regions);

	do {
		if (n & VB_DM_LEFT) /* or VB_DM_FREED */
			return EINVAL;
	} while (!atomic_compare_exchange_weak(&dm->regions, &n, n + 1));
	return 0;
}

/* Ends the memory in this process, unless regions have it: 0 or an errno. */
static int end(struct vb_dm *dm)
{
	unsigned none = 0;

	if (!atomic_compare_exchange_strong(&dm->regions, &none, VB_DM_FREED))
		return EBUSY;
	munmap(dm->at, rounded(dm->length));
	return 0;
}

VB_RETURNS_ERRNO(vb_free_dm, (struct ibv_dm *ibdm), (ibdm))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;
	int err = EINVAL;

	if (dm)
		err = vb_engine_alive(dm->engine) ? end(dm) : EIO;
	if (err)
		return err;
	if (!dm->imported) {
		vb_share_discard(ibdm->context, dm->place, rounded(dm->length));
		vb_share_remove(ibdm->context, ibdm->handle);
	}
	free(dm);
	return 0;
}

static void discard(struct vb_dm *dm)
{
	munmap(dm->at, rounded(dm->length));
	free(dm);
}

void vb_dm_unuse(struct vb_dm *dm)
{
	if (atomic_fetch_sub(&dm->regions, 1) == (VB_DM_LEFT | 1))
		discard(dm);
}

/* The memory and its handle stay. The last region frees a structure that regions need. */
VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_dm, (struct ibv_dm *ibdm), (ibdm))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;

	if (dm && !atomic_fetch_or(&dm->regions, VB_DM_LEFT))
		discard(dm);
}
