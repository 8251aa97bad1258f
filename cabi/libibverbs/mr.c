/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_dereg_mr(3), ibv_advise_mr(3).
 */
#include "mr.h"
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A region. Work requests point to its struct vb_mr. */
struct vb_region {
	struct vb_mr mr;
	const struct vb_engine *engine; /* immutable */
};

/* without_hints drops the optional flags but relaxed ordering: a device may ignore them. */
static unsigned without_hints(unsigned access)
{
	return access & ~((unsigned)IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING);
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_mr_iova2,
	(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova, unsigned int access),
	(ibpd, addr, length, iova, access))
{
	struct vb_region *region;
	struct vb_pd *pd;
	int err;

	if (!ibpd) {
		errno = EINVAL;
		return NULL;
	}
	access = without_hints(access);
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	pd = vb_pd_of(ibpd);
	region->engine = pd->engine;
	err = pd->engine->mr_reg(pd->handle, addr, length, iova, access, &region->mr.handle,
				 &region->mr.mr.lkey, &region->mr.mr.rkey);
	if (err) {
		free(region);
		errno = err;
		return NULL;
	}
	region->mr.mr.context = ibpd->context;
	region->mr.mr.pd = ibpd;
	region->mr.mr.addr = addr;
	region->mr.mr.length = length;
	region->mr.mr.handle = (uint32_t)region->mr.handle;
	return &region->mr.mr;
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

VB_EXPORT VB_RETURNS_POINTER(struct ibv_mr *, ibv_reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
	(pd, offset, length, iova, fd, access))
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
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

	if (!ibmr || !flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
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
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibmr->addr = addr;
		ibmr->length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		ibmr->pd = pd;
	return 0;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_dereg_mr, (struct ibv_mr *ibmr), (ibmr))
{
	struct vb_region *region = (struct vb_region *)ibmr;
	int err;

	if (!ibmr)
		return EINVAL;
	err = region->engine->mr_dereg(region->mr.handle);
	if (err)
		return err;
	free(region);
	return 0;
}

/* Pages are in memory when the call returns, with IBV_ADVISE_MR_FLAG_FLUSH and without. */
int vb_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct vb_pd *pd;

	if (!ibpd || (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !sg_list || !num_sge)
		return EINVAL;
	pd = vb_pd_of(ibpd);
	return pd->engine->mr_advise(pd->handle, advice, sg_list, num_sge);
}
