/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of our libibverbs.so.1 know of each other, and what our
 * librdmacm.so.1 gets from it: the functions marked VB_PRIVATE are exported in
 * the version node VERBENA_PRIVATE, which no application asks for.
 *
 * Lock order: vb_engine's lock (engine.c) above all others of the front.
 */
#ifndef VERBENA_FRONT_H
#define VERBENA_FRONT_H

#include "call.h"
#include "engine.h"

#include <net/if.h>
#include <stddef.h>

/* A public function of the library, versioned in libibverbs.map. */
#define VB_EXPORT __attribute__((visibility("default")))
/* Between our two libraries only. */
#define VB_PRIVATE __attribute__((visibility("default")))

#define vb_container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* -- the engine (engine.c) ------------------------------------------------- */

/*
 * Returns the engine's table, which the first call loads; NULL and errno if it
 * cannot be loaded: ELIBACC, or ENOMEM and EMFILE where there is no room for it.
 *
 * An object keeps the pointer that it was created with and makes its calls
 * through it. After a fork the child's engine is gone: every function of the
 * table of before then returns EIO and does nothing, so that objects of before
 * are dead without a check in each call, and vb_engine_get loads a new engine
 * with a new table.
 */
VB_PRIVATE const struct vb_engine *vb_engine_get(void);

/* Says whether the table's engine is there: false in a child of a fork. */
static inline int vb_engine_alive(const struct vb_engine *engine)
{
	return engine->version != 0;
}

/* -- devices (device.c) ------------------------------------------------------ */

struct vb_kind; /* device_limits.h */

/*
 * A device: a network interface with an address, and a way to use it. The head
 * is what applications see. ops lies where providers' private structures have theirs: vendors'
 * libraries compare it with their own table to recognise their devices.
 */
struct vb_device {
	struct ibv_device ibv;
	const void *ops;
	/* immutable */
	const struct vb_kind *kind;
	char netdev[IF_NAMESIZE];
	unsigned ifindex;
	unsigned number; /* of its own, beside the interface's other devices */
	uint64_t guid; /* as a number: host byte order */
	/* guarded by the list's lock */
	unsigned refs;
	struct vb_device *next;
};
_Static_assert(sizeof(void *) != 8 || offsetof(struct vb_device, ops) == 664,
	       "ops stands where vendors' libraries look for it");

static inline struct vb_device *vb_device_of(struct ibv_device *ibv)
{
	return (struct vb_device *)ibv;
}

void vb_device_get(struct vb_device *device);
void vb_device_put(struct vb_device *device);

/* -- contexts (context.c) ---------------------------------------------------- */

/*
 * A context. Applications have a pointer to verbs.context and find the
 * functions above it by verbs_get_ctx of <infiniband/verbs.h>; what stands
 * behind it is ours.
 */
struct vb_context {
	struct verbs_context verbs;
	/* immutable */
	struct vb_device *device;
	/*
	 * guarded by the engine's lock; the engine writes asynchronous events
	 * into async_write_fd, whose other end is verbs.context.async_fd
	 */
	int async_write_fd;
	/* atomic: the engine that handle belongs to, or NULL */
	_Atomic(const struct vb_engine *) engine;
	vb_handle handle;
};

static inline struct vb_context *vb_context_of(struct ibv_context *ctx)
{
	return vb_container_of(ctx, struct vb_context, verbs.context);
}

/*
 * Returns the engine's handle of a context, which the first call opens: 0 or an
 * errno. In a child of a fork a context of before is opened anew. The handle
 * belongs to the engine that vb_engine_get returns.
 */
VB_PRIVATE int vb_context_handle(struct ibv_context *ctx, vb_handle *handle);

/*
 * Fills in the functions that applications reach through a context and that
 * make or use objects: post and poll, memory windows, create_cq_ex …
 * (pd.c to qp_ex.c). Queries are filled in by context.c.
 */
void vb_fill_ops(struct vb_context *context);

/* -- attributes without the engine (attr.c, gid.c) ---------------------------- */

/* The device's attributes with the extended ones behind; the rest is zeroed. */
void vb_device_attr(const struct vb_device *device, struct ibv_device_attr_ex *attr);
/* The port's, except for the fields behind those of rdma-core 44. */
void vb_port_attr(const struct vb_device *device, struct ibv_port_attr *attr);
/*
 * Reads up to max entries of the GID table, in one look at the interface; those
 * that are free are zeroed. Returns the number of the last entry in use and one
 * more, or a negative errno.
 */
VB_PRIVATE int vb_gid_table(const struct vb_device *device, struct ibv_gid_entry *entries, int max);

#define VB_PKEY_DEFAULT 0xffff /* the only entry of the P_Key table */

#endif
