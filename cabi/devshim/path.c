/* SPDX-License-Identifier: BSD-2-Clause */
#include "path.h"

#include "counters.h"
#include "foreign.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char root[PATH_MAX];
static size_t root_length;
static pthread_once_t root_read = PTHREAD_ONCE_INIT;

static const char nodes[] = "/dev/infiniband";

/* The directory where libibverbs of rdma-core looks for devices; ours does not. */
static const char verbs_class[] = "/sys/class/infiniband_verbs";

static const char *const prefixes[] = {
	nodes,
	"/sys/class/infiniband",
	"/sys/class/infiniband_mad",
	verbs_class,
	"/proc/sys/net/rdma_ucm",
};

static void read_root(void)
{
	const char *value = secure_getenv("VERBENA_ROOT");
	size_t length = value ? strlen(value) : 0;

	if (length == 0 || value[0] != '/' || length >= sizeof root)
		return;
	memcpy(root, value, length + 1);
	root_length = length;
}

/*
 * Runs before the program can change its environment. Constructors of other libraries may run
 * earlier.
 */
__attribute__((constructor(101))) static void at_start(void)
{
	pthread_once(&root_read, read_root);
}

/* Returns whether path is the directory named or a path in it. */
static int within(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

int redirect(const char **path, struct redirected *r)
{
	const char *p = *path;
	size_t length;

	if (!p || p[0] != '/' || (p[1] != 'd' && p[1] != 's' && p[1] != 'p'))
		return 0;
	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
		if (!within(p, prefixes[i]))
			continue;
		pthread_once(&root_read, read_root);
		if (root_length == 0)
			return 0;
		if (prefixes[i] == verbs_class)
			look_for_another();
		length = strlen(p);
		if (root_length + length >= sizeof r->path) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(r->path, root, root_length);
		memcpy(r->path + root_length, p, length + 1);
		*path = r->path;
		return 0;
	}
	return 0;
}

int redirect_to_read(const char **path, struct redirected *r)
{
	const char *asked = *path;

	if (redirect(path, r))
		return -1;
	if (*path == r->path)
		refresh_counters(asked);
	return 0;
}

const char *redirected_root(void)
{
	pthread_once(&root_read, read_root);
	return root;
}

int node_number(const char *path, const char *kind)
{
	const char *digits;
	char *end;
	long n;

	if (!path || strncmp(path, nodes, sizeof nodes - 1) != 0)
		return -1;
	path += sizeof nodes - 1;
	if (strncmp(path, kind, strlen(kind)) != 0)
		return -1;
	digits = path + strlen(kind);
	if (*digits < '0' || *digits > '9')
		return -1;
	errno = 0;
	n = strtol(digits, &end, 10);
	return *end == '\0' && errno == 0 && n <= INT_MAX ? (int)n : -1;
}
