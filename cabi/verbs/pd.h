/*
 * Protection domains, and the aliases of them that parent domains are.
 */
#ifndef VERBENA_PD_H
#define VERBENA_PD_H

#include "front.h"

struct vb_td {
	struct ibv_td td;
	_Atomic unsigned users; /* parent domains with it */
};

struct vb_pd {
	struct ibv_pd pd;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;     /* a parent domain's is its origin's */
	struct vb_pd *origin; /* what a parent domain stands for; else NULL */
	struct vb_td *td;     /* a parent domain's, or NULL */
	/* atomic */
	_Atomic unsigned parents; /* parent domains that stand for it */
};

static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd)
{
	return (struct vb_pd *)pd;
}

static inline vb_handle vb_pd_handle(struct ibv_pd *pd)
{
	return vb_pd_of(pd)->handle;
}

/*
 * The engine, which is loaded if need be, and its handle of ctx: what every
 * object that is created begins with. 0 or an errno.
 */
int vb_enter(struct ibv_context *ctx, const struct vb_engine **engine, vb_handle *handle);

struct ibv_td *vb_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *ctx, struct ibv_parent_domain_init_attr *attr);

#endif
