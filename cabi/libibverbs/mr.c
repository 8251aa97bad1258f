/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_dereg_mr(3), ibv_advise_mr(3),
 * ibv_alloc_null_mr(3), ibv_reg_dm_mr(3), ibv_reg_dmabuf_mr(3), ibv_import_mr(3).
 */
#include "mr.h"
#include "dm.h"
#include "pd.h"
#include "share.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A region. Work requests point to its struct vb_mr. */
struct vb_region {
	struct vb_mr mr;
	/* immutable */
	const struct vb_engine *engine;
	int fixed;	  /* ibv_rereg_mr refuses it: the memory is not the application's */
	int imported;	  /* another object has the handle */
	struct vb_dm *dm; /* whose memory it is, or NULL */
	void *map;	  /* a mapping of ours, of map_length bytes, or NULL */
	size_t map_length;
	struct vb_share share; /* what others import */
};

/* without_hints drops the optional flags but relaxed ordering: a device may ignore them. */
static unsigned without_hints(unsigned access)
{
	return access & ~((unsigned)IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING);
}

static struct vb_region *new_region(struct ibv_pd *ibpd, void *addr, size_t length)
{
	struct vb_region *region;

	if (!ibpd) {
		errno = EINVAL;
		return NULL;
	}
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->engine = vb_pd_of(ibpd)->engine;
	region->mr.mr.context = ibpd->context;
	region->mr.mr.pd = ibpd;
	region->mr.mr.addr = addr;
	region->mr.mr.length = length;
	return region;
}

/* Ends a creation. The region is freed if it failed. */
static struct ibv_mr *finish(struct vb_region *region, int err)
{
	if (err) {
		free(region);
		errno = err;
		return NULL;
	}
	return &region->mr.mr;
}

static int start(struct vb_region *region, void *addr, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = &region->mr.mr;

	return region->engine->mr_reg(vb_pd_handle(mr->pd), addr, mr->length, iova,
				      without_hints(access), &region->mr.handle, &mr->lkey,
				      &mr->rkey);
}

static struct ibv_mr *register_memory(struct vb_region *region, void *addr, uint64_t iova,
				      unsigned access)
{
	struct ibv_mr *mr = &region->mr.mr;
	int err = start(region, addr, iova, access);

	if (!err) {
		region->share.addr = (uintptr_t)addr;
		region->share.length = mr->length;
		region->share.iova = iova;
		region->share.access = access;
		region->share.library = region->dm || region->map;
		mr->handle = vb_share_add(mr->context, VB_SHARE_MR, &region->share);
	}
	return finish(region, err);
}

/*
 * Registers the memory of a region anew, where this process has it: the region has keys of its own.
 */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle),
			     (pd, handle))
{
	struct vb_region *region;
	static char none[2];
	struct vb_share theirs, again;
	size_t map_length = 0;
	void *map = NULL, *addr;
	int err = pd ? vb_share_find(pd->context, handle, VB_SHARE_MR, &theirs) : EINVAL, own;

	if (!err) {
		own = vb_share_own(pd->context, handle, VB_SHARE_MR, &theirs);
		if (!theirs.length)
			addr = none + !((uintptr_t)none & 1); /* not the start of a page */
		else if (own && !theirs.library)
			addr = (void *)(uintptr_t)theirs.addr;
		else
			err = vb_share_pages(&theirs, own, &map, &map_length, &addr);
	}
	/* It was there while its pages were sought. */
	if (!err && (vb_share_find(pd->context, handle, VB_SHARE_MR, &again) ||
		     atomic_load(&again.state) != atomic_load(&theirs.state)))
		err = EINVAL;
	region = err ? NULL : new_region(pd, NULL, theirs.length);
	if (!err)
		err = region ? start(region, addr, theirs.iova, theirs.access) : errno;
	if (err) {
		if (map)
			munmap(map, map_length);
		free(region);
		errno = err;
		return NULL;
	}
	region->fixed = region->imported = 1;
	region->map = map;
	region->map_length = map_length;
	region->mr.mr.handle = handle;
	return &region->mr.mr;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_mr_iova2,
	(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova, unsigned int access),
	(ibpd, addr, length, iova, access))
{
	struct vb_region *region = new_region(ibpd, addr, length);

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	return region ? register_memory(region, addr, iova, access) : NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_mr,
	(struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access))
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_mr_iova,
			     (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			      int access),
			     (pd, addr, length, iova, access))
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* The null region is for local use: it has no rkey. */
VB_RETURNS_POINTER(struct ibv_mr *, vb_alloc_null_mr, (struct ibv_pd *pd), (pd))
{
	struct vb_region *region = new_region(pd, NULL, SIZE_MAX);

	if (!region)
		return NULL;
	region->fixed = 1;
	return finish(region, region->engine->mr_null(vb_pd_handle(pd), &region->mr.handle,
						      &region->mr.mr.lkey));
}

/* The region of device memory has no address of the application's: it starts at 0. */
VB_RETURNS_POINTER(struct ibv_mr *, vb_reg_dm_mr,
	(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset, size_t length, unsigned int access),
	(pd, ibdm, offset, length, access))
{
	struct vb_dm *dm = (struct vb_dm *)ibdm;
	struct vb_region *region;
	struct ibv_mr *mr;
	int err;

	if (!pd || !dm || dm->dm.context != pd->context ||
	    !(access & IBV_ACCESS_ZERO_BASED) || (access & IBV_ACCESS_ON_DEMAND) ||
	    !vb_dm_has(dm, offset, length)) {
		errno = EINVAL;
		return NULL;
	}
	region = new_region(pd, NULL, length);
	if (!region)
		return NULL;
	region->fixed = 1;
	region->dm = dm;
	/* The memory is in use before the key is in force. */
	err = vb_dm_use(dm);
	if (err)
		return finish(region, err);
	/* A region of no bytes permits nothing. At the start of a page it would be refused. */
	mr = register_memory(region, length ? dm->at + offset : dm->at + 1, 0, access);
	if (!mr)
		vb_dm_unuse(dm);
	return mr;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns the number of bytes whose multiples the mappings of a file begin and end at. */
static size_t mapping_unit(int fd, const struct stat *file)
{
	struct statfs system;

	if (!fstatfs(fd, &system) && (uint32_t)system.f_type == HUGETLBFS_MAGIC)
		return (size_t)file->st_blksize;
	return page_bytes();
}

/*
 * Maps the region's pages of a dma-buf, whose size is that of its file: 0 or an errno. *at is the
 * region's first byte. Any file that can be mapped serves too, such as a memfd.
 */
static int map_buffer(struct vb_region *region, int fd, uint64_t offset, uint64_t iova, int access,
		      char **at)
{
	const int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	size_t length = region->mr.mr.length, unit, within;
	struct stat file;

	if (fstat(fd, &file))
		return errno;
	/* The kernel demands the same offset in the page, too. */
	if (!length || offset > (uint64_t)file.st_size || length > (uint64_t)file.st_size - offset ||
	    ((offset ^ iova) & (page_bytes() - 1)))
		return EINVAL;
	unit = mapping_unit(fd, &file);
	within = offset & (unit - 1);
	region->map_length = (length + within + unit - 1) & ~(unit - 1);
	region->map = mmap(NULL, region->map_length,
			   PROT_READ | (access & writes ? PROT_WRITE : 0), MAP_SHARED, fd,
			   (off_t)(offset - within));
	if (region->map == MAP_FAILED)
		return errno == ENODEV ? EOPNOTSUPP : errno;
	*at = (char *)region->map + within;
	region->fixed = 1;
	return 0;
}

/* The address of the region is its offset in the buffer, as rdma-core has it. */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
	(pd, offset, length, iova, fd, access))
{
	struct vb_region *region = new_region(pd, (void *)(uintptr_t)offset, length);
	char *at = NULL;
	int err = region ? map_buffer(region, fd, offset, iova, access, &at) : errno;
	size_t map_length;
	struct ibv_mr *mr;
	void *map;

	if (err)
		return finish(region, err);
	map = region->map;
	map_length = region->map_length;
	mr = register_memory(region, at, iova, (unsigned)access);
	if (!mr) {
		err = errno;
		munmap(map, map_length);
		errno = err;
	}
	return mr;
}

/*
 * A refused request leaves the old region valid. IBV_REREG_MR_ERR_INPUT says so, and errno has the
 * reason.
 */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_rereg_mr,
	(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
	(ibmr, flags, pd, addr, length, access))
{
	struct vb_region *region = (struct vb_region *)ibmr;
	uint32_t lkey, rkey;
	int err;

	if (!ibmr || region->fixed || !flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != ibmr->context)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if ((flags & IBV_REREG_MR_CHANGE_PD) && vb_pd_of(pd)->engine != region->engine) {
		errno = EIO; /* one of them is from before a fork */
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		access = (int)without_hints((unsigned)access);
	err = region->engine->mr_rereg(region->mr.handle, flags,
				       flags & IBV_REREG_MR_CHANGE_PD ? vb_pd_handle(pd) : 0, addr, length,
				       (unsigned)access, &lkey, &rkey);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	ibmr->lkey = lkey;
	ibmr->rkey = rkey;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		region->share.access = (uint32_t)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibmr->addr = addr;
		ibmr->length = length;
		region->share.addr = (uintptr_t)addr;
		region->share.iova = region->share.access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
		region->share.length = length;
	}
	vb_share_change(ibmr->context, ibmr->handle, VB_SHARE_MR, &region->share);
	if (flags & IBV_REREG_MR_CHANGE_PD)
		ibmr->pd = pd;
	return 0;
}

/* Ends a region in this process: 0 or an errno. freeing: and its handle, before its mapping. */
static int end(struct vb_region *region, int freeing)
{
	int err;

	err = region->engine->mr_dereg(region->mr.handle);
	if (err)
		return err;
	if (freeing && !region->imported)
		vb_share_remove(region->mr.mr.context, region->mr.mr.handle);
	if (region->dm)
		vb_dm_unuse(region->dm);
	if (region->map)
		munmap(region->map, region->map_length);
	return 0;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_dereg_mr, (struct ibv_mr *ibmr), (ibmr))
{
	struct vb_region *region = (struct vb_region *)ibmr;
	int err = ibmr ? end(region, 1) : EINVAL;

	if (err)
		return err;
	free(region);
	return 0;
}

/* The handle stays valid. A region that has windows, which cannot be ended, is never freed. */
VB_EXPORT VB_RETURNS_NOTHING(ibv_unimport_mr, (struct ibv_mr *ibmr), (ibmr))
{
	struct vb_region *region = (struct vb_region *)ibmr;

	if (ibmr && !end(region, 0))
		free(region);
}

/* Pages are in memory when the call returns, with IBV_ADVISE_MR_FLAG_FLUSH and without. */
VB_RETURNS_ERRNO(vb_advise_mr,
	(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		struct ibv_sge *sg_list, uint32_t num_sge),
	(ibpd, advice, flags, sg_list, num_sge))
{
	struct vb_pd *pd;

	if (!ibpd || (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !sg_list || !num_sge)
		return EINVAL;
	pd = vb_pd_of(ibpd);
	return pd->engine->mr_advise(pd->handle, advice, sg_list, num_sge);
}
