/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files in the directories counters and hw_counters of a port. They are plain files below
 * VERBENA_ROOT. Before a program reads one, verbena-keeper asks the user's processes for their
 * counts and writes all of them: that is not done in the program, which may be a shell.
 *
 * Values are as old as a kernel's may be, whose drivers are asked again after LIFESPAN_MS.
 */
#include "counters.h"

#include "helper.h"
#include "path.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define LIFESPAN_MS 10 /* the file lifespan in hw_counters says it: internal/tools/run */

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Returns whether path is the directory, of that name in a port's, or within it. */
static int in_directory(const char *path, const char *name)
{
	const char *found = strstr(path, name);
	size_t length = strlen(name);

	return found && (found[length] == '/' || found[length] == '\0');
}

void refresh_counters(const char *path)
{
	static _Atomic long long filled; /* 0: never */
	int before = errno;

	if (strstr(path, "/ports/") &&
	    (in_directory(path, "/counters") || in_directory(path, "/hw_counters")) &&
	    (filled == 0 || now_ms() - filled >= LIFESPAN_MS)) {
		run_helper("counters");
		filled = now_ms();
	}
	errno = before;
}
