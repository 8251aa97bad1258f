/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, and parent domains, which stand for them. */
#ifndef VERBENA_PD_H
#define VERBENA_PD_H

#include "front.h"

struct vb_td {
	struct ibv_td td;
	_Atomic unsigned users; /* number of parent domains with it */
};

struct vb_pd {
	struct ibv_pd pd;
	/* immutable */
	const struct vb_engine *engine;
	vb_handle handle;     /* that of origin for a parent domain */
	struct vb_pd *origin; /* the domain that a parent domain stands for, else NULL */
	int imported;	      /* another object has the handle */
	struct vb_td *td;     /* of a parent domain, or NULL */
	/* allocators of a parent domain and their context, or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *context, void *memory, uint64_t resource_type);
	void *alloc_context;
	/* atomic */
	_Atomic unsigned parents; /* number of parent domains that stand for it */
	/* guarded by the mutex of the context */
	struct vb_pd *next; /* of those that ibv_unimport_pd left */
};

/* Frees the domains that ibv_unimport_pd left: their context is being closed. */
void vb_pd_free_left(struct vb_context *c);

static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd)
{
	return (struct vb_pd *)pd;
}

static inline vb_handle vb_pd_handle(struct ibv_pd *pd)
{
	return vb_pd_of(pd)->handle;
}

/*
 * Returns the engine, which is loaded if need be, and its handle of ctx. The creation of every
 * object begins with it. 0 or an errno.
 */
int vb_enter(struct ibv_context *ctx, const struct vb_engine **engine, vb_handle *handle);

/* Zeroed memory of an object. theirs: an allocator of a parent domain gave it. */
struct vb_memory {
	void *at;
	struct vb_pd *theirs;
};

/*
 * Allocates n times size bytes for an object of a domain, which may be NULL. at is NULL without
 * memory.
 */
struct vb_memory vb_memory_new(struct vb_pd *pd, size_t n, size_t size);
void vb_memory_free(struct vb_memory memory);

struct ibv_td *vb_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *ctx,
				      struct ibv_parent_domain_init_attr *attr);

#endif
