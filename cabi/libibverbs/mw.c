/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3).
 */
#include "mw.h"
#include "pd.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>

/* A window. Work requests point to its struct vb_mw. */
struct vb_window {
	struct vb_mw mw;
	const struct vb_engine *engine; /* immutable */
};

VB_RETURNS_POINTER(struct ibv_mw *, vb_alloc_mw, (struct ibv_pd *ibpd, enum ibv_mw_type type),
		   (ibpd, type))
{
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_window *w;
	int err;

	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->engine = pd->engine;
	err = pd->engine->mw_alloc(pd->handle, type, &w->mw.handle, &w->mw.mw.rkey);
	if (err) {
		free(w);
		errno = err;
		return NULL;
	}
	w->mw.mw.context = ibpd->context;
	w->mw.mw.pd = ibpd;
	w->mw.mw.handle = (uint32_t)w->mw.handle;
	w->mw.mw.type = type;
	return &w->mw.mw;
}

VB_RETURNS_ERRNO(vb_dealloc_mw, (struct ibv_mw *mw), (mw))
{
	struct vb_window *w = (struct vb_window *)mw;
	int err;

	err = w->engine->mw_free(w->mw.handle);
	if (err)
		return err;
	free(w);
	return 0;
}

VB_RETURNS_ERRNO(vb_bind_mw, (struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind),
		 (ibqp, mw, bind))
{
	struct vb_qp *qp = vb_qp_of(ibqp);
	uint32_t rkey;
	int err;

	err = qp->engine->qp_bind_mw(qp->handle, (struct vb_mw *)mw, bind, &rkey);
	if (err)
		return err;
	mw->rkey = rkey;
	return 0;
}
