/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: ibv_create_ah(3). Work requests point to struct vb_ah.
 */
#include "pd.h"

#include <errno.h>
#include <stdlib.h>

struct vb_address {
	struct vb_ah ah;
	const struct vb_engine *engine; /* immutable */
};

VB_EXPORT VB_RETURNS_POINTER(struct ibv_ah *, ibv_create_ah,
	(struct ibv_pd *ibpd, struct ibv_ah_attr *attr), (ibpd, attr))
{
	struct vb_address *a;
	struct vb_pd *pd;
	int err;

	if (!ibpd || !attr || !attr->port_num) { /* the device has one port; the engine names it 0 */
		errno = EINVAL;
		return NULL;
	}
	pd = vb_pd_of(ibpd);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->engine = pd->engine;
	err = pd->engine->ah_create(pd->handle, attr, &a->ah.handle);
	if (err) {
		free(a);
		errno = err;
		return NULL;
	}
	a->ah.ah.context = ibpd->context;
	a->ah.ah.pd = ibpd;
	a->ah.ah.handle = (uint32_t)a->ah.handle;
	return &a->ah.ah;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_ah, (struct ibv_ah *ah), (ah))
{
	struct vb_address *a = (struct vb_address *)ah;
	int err;

	if (!ah)
		return EINVAL;
	err = a->engine->ah_destroy(a->ah.handle);
	if (err)
		return err;
	free(a);
	return 0;
}
