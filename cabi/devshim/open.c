/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that open a file or a directory. */
#include "next.h"
#include "path.h"
#include "umad.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

/* open(2): the mode is there only if the flags can create a file. */
#define MODE(flags, last) \
	({ \
		mode_t mode_ = 0; \
\
		if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
			va_list ap; \
\
			va_start(ap, last); \
			mode_ = va_arg(ap, mode_t); \
			va_end(ap); \
		} \
		mode_; \
	})

#define OPEN(name) \
	NEXT(name, int(const char *, int, ...)) \
	EXPORT int name(const char *path, int flags, ...) \
	{ \
		struct redirected r; \
		mode_t mode = MODE(flags, flags); \
		const char *where = path; \
		int fd; \
\
		if (!next_##name() || redirect_to_read(&where, &r)) \
			return -1; \
		if (where == r.path && open_umad(path, flags, &fd)) \
			return fd; \
		return next_##name()(where, flags, mode); \
	}

#define OPENAT(name) \
	NEXT(name, int(int, const char *, int, ...)) \
	EXPORT int name(int dir, const char *path, int flags, ...) \
	{ \
		struct redirected r; \
		mode_t mode = MODE(flags, flags); \
		const char *where = path; \
		int fd; \
\
		if (!next_##name() || redirect_to_read(&where, &r)) \
			return -1; \
		if (where == r.path && open_umad(path, flags, &fd)) \
			return fd; \
		return next_##name()(dir, where, flags, mode); \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* The names of open in programs compiled with _FORTIFY_SOURCE. */
#define OPEN_2(name) \
	NEXT(name, int(const char *, int)) \
	EXPORT int name(const char *path, int flags); \
	EXPORT int name(const char *path, int flags) \
	{ \
		struct redirected r; \
		const char *where = path; \
		int fd; \
\
		if (!next_##name() || redirect_to_read(&where, &r)) \
			return -1; \
		if (where == r.path && open_umad(path, flags, &fd)) \
			return fd; \
		return next_##name()(where, flags); \
	}

#define OPENAT_2(name) \
	NEXT(name, int(int, const char *, int)) \
	EXPORT int name(int dir, const char *path, int flags); \
	EXPORT int name(int dir, const char *path, int flags) \
	{ \
		struct redirected r; \
		const char *where = path; \
		int fd; \
\
		if (!next_##name() || redirect_to_read(&where, &r)) \
			return -1; \
		if (where == r.path && open_umad(path, flags, &fd)) \
			return fd; \
		return next_##name()(dir, where, flags); \
	}

OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define FOPEN(name) \
	NEXT(name, FILE *(const char *, const char *)) \
	EXPORT FILE *name(const char *path, const char *mode) \
	{ \
		struct redirected r; \
\
		if (!next_##name() || redirect_to_read(&path, &r)) \
			return NULL; \
		return next_##name()(path, mode); \
	}

FOPEN(fopen)
FOPEN(fopen64)

NEXT(opendir, DIR *(const char *))
EXPORT DIR *opendir(const char *path)
{
	struct redirected r;

	if (!next_opendir() || redirect_to_read(&path, &r))
		return NULL;
	return next_opendir()(path);
}

#define SCANDIR(name, entry)                                                                       \
	NEXT(name, int(const char *, struct entry ***, int (*)(const struct entry *),              \
		       int (*)(const struct entry **, const struct entry **)))                     \
	EXPORT int name(const char *path, struct entry ***list,                                    \
			int (*wanted)(const struct entry *),                                       \
			int (*order)(const struct entry **, const struct entry **))                \
	{                                                                                          \
		struct redirected r;                                                               \
                                                                                                   \
		if (!next_##name() || redirect_to_read(&path, &r))                                         \
			return -1;                                                                 \
		return next_##name()(path, list, wanted, order);                                   \
	}

SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)
