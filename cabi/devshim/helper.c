/* SPDX-License-Identifier: BSD-2-Clause */
#include "helper.h"

#include "detach.h"
#include "path.h"

#include <errno.h>
#include <stdio.h>

int run_helper(const char *command)
{
	char dir[PATH_MAX], path[PATH_MAX];
	int err;

	vb_library_dir(dir, sizeof dir);
	if (!dir[0] || snprintf(path, sizeof path, "%s/verbena-keeper", dir) >= (int)sizeof path) {
		errno = ENOENT;
		return -1;
	}
	err = vb_detach(path, 1, -1, command, redirected_root(), NULL);
	errno = err;
	return err ? -1 : 0;
}
