/* SPDX-License-Identifier: BSD-2-Clause */
#include "helper.h"

#include "detach.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bounds the wait for a helper's first message: some milliseconds, unless the machine is busy. */
#define PATIENCE_MS 10000

/* Runs the helper, and waits for its end if await is set. Returns 0 or an errno. */
static int detach(const char *command, int await, int in)
{
	char dir[PATH_MAX], path[PATH_MAX];

	vb_library_dir(dir, sizeof dir);
	if (!dir[0] || snprintf(path, sizeof path, "%s/verbena-keeper", dir) >= (int)sizeof path)
		return ENOENT;
	return vb_detach(path, await, in, command, redirected_root(), NULL);
}

int run_helper(const char *command)
{
	int err = detach(command, 1, -1);

	errno = err;
	return err ? -1 : 0;
}

int start_helper(const char *command)
{
	struct pollfd p = { .events = POLLIN };
	int fds[2], in, err = 0;
	char first;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -1;
	in = fcntl(fds[1], F_DUPFD_CLOEXEC, 3); /* above those that the helper gets */
	if (in < 0)
		err = errno;
	close(fds[1]);
	if (!err)
		err = detach(command, 0, in);
	if (in >= 0)
		close(in);
	p.fd = fds[0];
	if (!err && (poll(&p, 1, PATIENCE_MS) != 1 || recv(fds[0], &first, 1, 0) != 1))
		err = EPROTONOSUPPORT;
	if (!err)
		return fds[0];
	close(fds[0]);
	errno = err;
	return -1;
}
