/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The declarations that the files of our libibverbs.so.1 share. Our librdmacm.so.1 uses those
 * marked VB_PRIVATE, which are exported in the version node VERBENA_PRIVATE; no application asks
 * for that node.
 *
 * Lock order: the lock of engine.c comes before all others of the front.
 */
#ifndef VERBENA_FRONT_H
#define VERBENA_FRONT_H

#include "call.h"
#include "engine.h"

#include <net/if.h>
#include <stddef.h>
#include <sys/types.h>

/* A public function of the library, versioned in libibverbs.map. */
#define VB_EXPORT __attribute__((visibility("default")))
/* Between our two libraries only. */
#define VB_PRIVATE __attribute__((visibility("default")))

#define vb_container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* -- the engine (engine.c) ------------------------------------------------- */

/*
 * Returns the table of the engine, which the first call loads. NULL and errno if that fails:
 * ELIBACC, or ENOMEM and EMFILE where there is no room for it.
 *
 * An object stores this pointer when it is created and makes its calls through it. In a child of a
 * fork every function of the old table does nothing and returns EIO. So objects from before the
 * fork are dead without a check in each call. vb_engine_get then loads a new engine with a new
 * table.
 */
VB_PRIVATE const struct vb_engine *vb_engine_get(void);

/* Returns whether the engine of the table is alive: false in a child of a fork. */
static inline int vb_engine_alive(const struct vb_engine *engine)
{
	return engine->version != 0;
}

/* -- devices (device.c) ------------------------------------------------------ */

struct vb_kind; /* device_limits.h */

/*
 * A device: a network interface with an address, and a transport. Applications see the first
 * member. ops lies where the private structures of providers have theirs: libraries of vendors
 * compare it with their own table to recognise their devices.
 */
struct vb_device {
	struct ibv_device ibv;
	const void *ops;
	/* immutable */
	const struct vb_kind *kind;
	char netdev[IF_NAMESIZE];
	unsigned ifindex;
	unsigned number; /* its own, distinct from those of other devices on the interface */
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

struct vb_share_table;
struct vb_share;
struct vb_pd;

/* -- contexts (context.c) ---------------------------------------------------- */

/*
 * A context. Applications have a pointer to verbs.context, and verbs_get_ctx of
 * <infiniband/verbs.h> finds the functions above it. The fields behind are ours.
 */
struct vb_context {
	struct verbs_context verbs;
	/* immutable once the context is made */
	struct vb_device *device;
	struct vb_share_table *shares; /* share.h; its file is cmd_fd's. NULL: no handles */
	ino_t shares_inode;
	dev_t shares_device;
	struct vb_share *own; /* what this context has in its table */
	/* guarded by the lock of engine.c */
	struct vb_context *next;
	/* guarded by the mutex of verbs.context: domains that ibv_unimport_pd left to their users */
	struct vb_pd *left;
	/*
	 * guarded by the engine's lock; the engine writes asynchronous events
	 * into async_write_fd, whose other end is verbs.context.async_fd
	 */
	int async_write_fd;
	/* atomic: the engine of handle, or NULL */
	_Atomic(const struct vb_engine *) engine;
	vb_handle handle;
};

static inline struct vb_context *vb_context_of(struct ibv_context *ctx)
{
	return vb_container_of(ctx, struct vb_context, verbs.context);
}

/*
 * Returns the engine's handle of a context, which the first call opens: 0 or an errno. A context
 * from before a fork is opened anew in the child. The handle belongs to the engine that
 * vb_engine_get returns.
 */
VB_PRIVATE int vb_context_handle(struct ibv_context *ctx, vb_handle *handle);

/*
 * Fills in the functions of a context that make or use objects: post and poll, memory windows,
 * create_cq_ex and others (pd.c to qp_ex.c). context.c fills in the queries.
 */
void vb_fill_ops(struct vb_context *context);

/* -- attributes without the engine (attr.c, gid.c) ---------------------------- */

/* Returns the attributes of the device, extended ones included; the rest is zeroed. */
void vb_device_attr(const struct vb_device *device, struct ibv_device_attr_ex *attr);
/* Returns those of the port, without the fields added after rdma-core 44. */
void vb_port_attr(const struct vb_device *device, struct ibv_port_attr *attr);
/*
 * Reads up to max entries of the GID table in one step; free ones are zeroed. Returns the number of
 * the last entry in use plus one, or a negative errno.
 */
VB_PRIVATE int vb_gid_table(const struct vb_device *device, struct ibv_gid_entry *entries, int max);

#define VB_PKEY_DEFAULT 0xffff /* the only entry of the P_Key table */

#endif
