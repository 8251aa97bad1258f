/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that read the type and attributes of a file. A node of /dev/infiniband is a plain file
 * below VERBENA_ROOT; the program sees a character device.
 */
#include "next.h"
#include "path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The device numbers of the nodes in the kernel: of umad from 0 on, of uverbs from 192 on. */
#define NODE_MAJOR 231
#define VERBS_FIRST_MINOR 192

/* Returns the minor number of a node, or -1 for every other path. */
static int node_minor(const char *path)
{
	int verbs = node_number(path, "/uverbs");

	return verbs >= 0 ? VERBS_FIRST_MINOR + verbs : node_number(path, "/umad");
}

#define AS_DEVICE(path, s) \
	do { \
		int minor_ = node_minor(path); \
\
		if (minor_ >= 0) { \
			(s)->st_mode = ((s)->st_mode & ~S_IFMT) | S_IFCHR; \
			(s)->st_rdev = makedev(NODE_MAJOR, minor_); \
		} \
	} while (0)

#define STAT(name, type) \
	NEXT(name, int(const char *, struct type *)) \
	EXPORT int name(const char *path, struct type *s) \
	{ \
		struct redirected r; \
		const char *where = path; \
\
		if (!next_##name() || redirect(&where, &r)) \
			return -1; \
		if (next_##name()(where, s)) \
			return -1; \
		if (where == r.path) \
			AS_DEVICE(path, s); \
		return 0; \
	}

STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

#define FSTATAT(name, type) \
	NEXT(name, int(int, const char *, struct type *, int)) \
	EXPORT int name(int dir, const char *path, struct type *s, int flags) \
	{ \
		struct redirected r; \
		const char *where = path; \
\
		if (!next_##name() || redirect(&where, &r)) \
			return -1; \
		if (next_##name()(dir, where, s, flags)) \
			return -1; \
		if (where == r.path) \
			AS_DEVICE(path, s); \
		return 0; \
	}

FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

/* The names of stat in programs linked before glibc 2.33. */
#define XSTAT(name, type) \
	NEXT(name, int(int, const char *, struct type *)) \
	EXPORT int name(int version, const char *path, struct type *s); \
	EXPORT int name(int version, const char *path, struct type *s) \
	{ \
		struct redirected r; \
		const char *where = path; \
\
		if (!next_##name() || redirect(&where, &r)) \
			return -1; \
		if (next_##name()(version, where, s)) \
			return -1; \
		if (where == r.path) \
			AS_DEVICE(path, s); \
		return 0; \
	}

XSTAT(__xstat, stat)
XSTAT(__lxstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat64, stat64)

NEXT(statx, int(int, const char *, int, unsigned, struct statx *))
EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *s)
{
	struct redirected r;
	const char *where = path;
	int minor_;

	if (!next_statx() || redirect(&where, &r))
		return -1;
	if (next_statx()(dir, where, flags, mask, s))
		return -1;
	if (where == r.path && (minor_ = node_minor(path)) >= 0) {
		s->stx_mode = (s->stx_mode & ~S_IFMT) | S_IFCHR;
		s->stx_rdev_major = NODE_MAJOR;
		s->stx_rdev_minor = (unsigned)minor_;
	}
	return 0;
}
