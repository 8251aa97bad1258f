/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects that other contexts may import, in this process and in others: ibv_import_device(3).
 *
 * The descriptor cmd_fd of a context is a memory file with a table. An object's handle is its
 * place there. A context that imports the device has the same file:
 *
 *	process A                          process B
 *	cmd_fd ──► ┌───────────────────┐ ◄── cmd_fd
 *	           │ device            │
 *	           │ 1  domain         │
 *	           │ 2  region of A's  │     finds the pages that A has there, and registers
 *	           │    address …      │     them where B has mapped them (import.c)
 *	           └───────────────────┘
 *
 * All that have the descriptor may write to the table, so it is only ever a hint: nothing read from
 * it is trusted more than the arguments of a call.
 */
#ifndef VERBENA_SHARE_H
#define VERBENA_SHARE_H

#include "front.h"

#include <sys/types.h>

enum vb_share_kind {
	VB_SHARE_FREE,
	VB_SHARE_CHANGING, /* an object comes or changes */
	VB_SHARE_PD,
	VB_SHARE_MR,
	VB_SHARE_DM,
};

/* An object. A domain has only its kind. addr of device memory is its place in the file. */
struct vb_share {
	_Atomic uint64_t state; /* share.c: the kind and the generation of the handle */
	uint32_t access;
	int32_t pid; /* of the process that has addr */
	uint32_t log_align;
	uint32_t library; /* 1: the library has mapped the memory, and unmaps it */
	uint64_t addr, length, iova;
};

/* Makes the table of a new context, and its cmd_fd: 0 or an errno. */
int vb_share_open(struct vb_context *c);

/* Makes cmd_fd that of c, whose descriptor and table it replaces: 0 or an errno. */
int vb_share_join(struct vb_context *c, int cmd_fd);

/* Reads the device that a context with cmd_fd has: 0 or an errno. */
int vb_share_device(int cmd_fd, char name[IBV_SYSFS_NAME_MAX], uint64_t *guid);

void vb_share_close(struct vb_context *c);

/* Enters an object, with the pid of the caller. Returns its handle, 0 if the table is full. */
uint32_t vb_share_add(struct ibv_context *ctx, enum vb_share_kind kind,
		      const struct vb_share *object);

/* Changes an entry to the object. */
void vb_share_change(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		     const struct vb_share *object);

void vb_share_remove(struct ibv_context *ctx, uint32_t handle);

/* Copies the object of a handle: 0, or EINVAL if there is none of that kind. */
int vb_share_find(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		  struct vb_share *object);

/*
 * Adds length bytes of zeroed memory, a multiple of the page size, to the file. *at is their place
 * there. 0 or an errno.
 */
int vb_share_grow(struct ibv_context *ctx, uint64_t length, uint64_t *at);

/* Maps such memory at an address with log_align zero bits at least: NULL and errno if it fails. */
void *vb_share_map(struct ibv_context *ctx, uint64_t at, uint64_t length, unsigned log_align);

/* Gives the pages of such memory back. Where it is still mapped, it is zeroed. */
void vb_share_discard(struct ibv_context *ctx, uint64_t at, uint64_t length);

/* Returns whether device memory of a place and length is in the file. */
int vb_share_has(struct ibv_context *ctx, uint64_t at, uint64_t length);

/*
 * Returns whether this process made the object of a handle, and copies it: from memory of its own,
 * which other processes cannot write.
 */
int vb_share_own(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		 struct vb_share *object);

/*
 * Maps the pages once more that the process of a region has at its address, if this process has
 * mapped them: 0 or an errno, EFAULT if they are not mapped or not shared. own: the process is this
 * one. *map is the mapping, of *map_length bytes, and *at the first byte of the region.
 */
int vb_share_pages(const struct vb_share *object, int own, void **map, size_t *map_length,
		   void **at);

#endif
