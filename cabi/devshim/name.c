/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that check whether a file may be used, that read links, and that change the directory. */
#include "next.h"
#include "path.h"

#include <stdlib.h>
#include <unistd.h>

#define ACCESS(name) \
	NEXT(name, int(const char *, int)) \
	EXPORT int name(const char *path, int mode) \
	{ \
		struct redirected r; \
\
		if (!next_##name() || redirect(&path, &r)) \
			return -1; \
		return next_##name()(path, mode); \
	}

ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

NEXT(faccessat, int(int, const char *, int, int))
EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	struct redirected r;

	if (!next_faccessat() || redirect(&path, &r))
		return -1;
	return next_faccessat()(dir, path, mode, flags);
}

/* Scripts list a directory so: ibstatus. */
NEXT(chdir, int(const char *))
EXPORT int chdir(const char *path)
{
	struct redirected r;

	if (!next_chdir() || redirect_to_read(&path, &r))
		return -1;
	return next_chdir()(path);
}

NEXT(readlink, ssize_t(const char *, char *, size_t))
EXPORT ssize_t readlink(const char *path, char *buffer, size_t size)
{
	struct redirected r;

	if (!next_readlink() || redirect(&path, &r))
		return -1;
	return next_readlink()(path, buffer, size);
}

NEXT(readlinkat, ssize_t(int, const char *, char *, size_t))
EXPORT ssize_t readlinkat(int dir, const char *path, char *buffer, size_t size)
{
	struct redirected r;

	if (!next_readlinkat() || redirect(&path, &r))
		return -1;
	return next_readlinkat()(dir, path, buffer, size);
}

NEXT(realpath, char *(const char *, char *))
EXPORT char *realpath(const char *path, char *resolved)
{
	struct redirected r;

	if (!next_realpath() || redirect(&path, &r))
		return NULL;
	return next_realpath()(path, resolved);
}

NEXT(canonicalize_file_name, char *(const char *))
EXPORT char *canonicalize_file_name(const char *path)
{
	struct redirected r;

	if (!next_canonicalize_file_name() || redirect(&path, &r))
		return NULL;
	return next_canonicalize_file_name()(path);
}

/* The names that they have in programs compiled with _FORTIFY_SOURCE. */

NEXT(__readlink_chk, ssize_t(const char *, char *, size_t, size_t))
EXPORT ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
EXPORT ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room)
{
	struct redirected r;

	if (!next___readlink_chk() || redirect(&path, &r))
		return -1;
	return next___readlink_chk()(path, buffer, size, room);
}

NEXT(__readlinkat_chk, ssize_t(int, const char *, char *, size_t, size_t))
EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *buffer, size_t size, size_t room);
EXPORT ssize_t __readlinkat_chk(int dir, const char *path, char *buffer, size_t size, size_t room)
{
	struct redirected r;

	if (!next___readlinkat_chk() || redirect(&path, &r))
		return -1;
	return next___readlinkat_chk()(dir, path, buffer, size, room);
}

NEXT(__realpath_chk, char *(const char *, char *, size_t))
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t room);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	struct redirected r;

	if (!next___realpath_chk() || redirect(&path, &r))
		return NULL;
	return next___realpath_chk()(path, resolved, room);
}
