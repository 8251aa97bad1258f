/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths the shim answers for, and where they are instead.
 *
 * UCX takes a device only if /dev/infiniband/<dev_name> is a character device
 * that it may read and write; it and others read GID types, CPU sets and limits
 * from /sys and /proc without asking libibverbs. No kernel module makes these
 * files here, and a user may not. `verbena run` writes them below a directory
 * of its own, VERBENA_ROOT; the shim sends the calls there.
 *
 * A path of any other name goes to the C library as it came: it costs one
 * comparison of a few bytes. Relative paths are never looked at.
 */
#ifndef VERBENA_PRELOAD_PATH_H
#define VERBENA_PRELOAD_PATH_H

#include <limits.h>

/* A redirected path, on the caller's stack: the shim allocates nothing. */
struct redirected {
	char path[PATH_MAX];
};

/*
 * Makes *path r->path if it is one of those that the shim answers for. Returns
 * 0, or -1 and errno ENAMETOOLONG. A NULL path stays: it is the C library's to
 * refuse, with the errno of each call.
 */
int redirect(const char **path, struct redirected *r);

/* The number N of /dev/infiniband/uverbsN, or -1 for every other path. */
int device_node(const char *path);

#endif
