/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The paths that the shim redirects.
 *
 * UCX takes a device only if /dev/infiniband/<dev_name> is a character device that it may read and
 * write. UCX and others read GID types, CPU sets and limits from /sys and /proc without asking
 * libibverbs. No kernel module makes these files here, and a user may not. `verbena run` writes
 * them below a directory of its own, VERBENA_ROOT, and the shim redirects the calls there.
 *
 * Any other path is passed to the C library unchanged, after a comparison of a few bytes. Relative
 * paths are never redirected.
 */
#ifndef VERBENA_PRELOAD_PATH_H
#define VERBENA_PRELOAD_PATH_H

#include <limits.h>

/* A redirected path. It lies on the stack of the caller: the shim allocates nothing. */
struct redirected {
	char path[PATH_MAX];
};

/*
 * Sets *path to r->path if the path is redirected. Returns 0, or -1 and errno ENAMETOOLONG. A NULL
 * path stays NULL: the C library refuses it with the errno of each call.
 */
int redirect(const char **path, struct redirected *r);

/* As redirect, for a call that reads the file or directory. Counters are brought up to date. */
int redirect_to_read(const char **path, struct redirected *r);

/* The directory VERBENA_ROOT, or an empty string. */
const char *redirected_root(void);

/* Returns the N of /dev/infiniband/KIND N, where kind is "/uverbs" or "/umad"; otherwise -1. */
int node_number(const char *path, const char *kind);

#endif
