/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event pipes.
 */
#define _GNU_SOURCE
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int vb_pipe_open(int ends[2])
{
	int flags;

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	flags = fcntl(ends[1], F_GETFL);
	if (flags >= 0 && fcntl(ends[1], F_SETFL, flags | O_NONBLOCK) == 0)
		return 0;
	flags = errno;
	close(ends[0]);
	close(ends[1]);
	return flags;
}

int vb_pipe_read(int fd, void *record, size_t size, struct vb_context *ctx)
{
	const struct vb_engine *engine = atomic_load(&ctx->engine);
	int waiting = 0;
	ssize_t n;

	if (engine && !(ioctl(fd, FIONREAD, &waiting) == 0 && waiting))
		engine->wake(ctx->handle);
	n = read(fd, record, size);
	if (n < 0)
		return errno;
	/* A record is written at once: less of it is the end of the pipe. */
	return (size_t)n == size ? 0 : EIO;
}

/*
 * read would block, or leave it to O_NONBLOCK which is the application's, where
 * another thread takes the records first. splice has a flag of its own: it moves
 * them to a pipe of ours, from where those that stay go back.
 */
void vb_pipe_purge(int read_fd, int write_fd, size_t size, size_t offset, vb_cookie cookie)
{
	int waiting = 0, capacity, aside[2];
	char record[64];
	vb_cookie c;

	if (size > sizeof(record) || ioctl(read_fd, FIONREAD, &waiting) || !waiting)
		return;
	/*
	 * Records left in the pipe are dropped when they are read. A half-full pipe has other records,
	 * which stay readable. After taking records out the front might not be able to put them back:
	 * the engine may have filled their place.
	 */
	capacity = fcntl(read_fd, F_GETPIPE_SZ);
	if (capacity < 0 || waiting > capacity / 2)
		return;
	if (pipe2(aside, O_CLOEXEC | O_NONBLOCK))
		return;
	while (splice(read_fd, NULL, aside[1], NULL, (size_t)capacity, SPLICE_F_NONBLOCK) > 0)
		continue;
	while (read(aside[0], record, size) == (ssize_t)size) {
		memcpy(&c, record + offset, sizeof(c));
		if (c != cookie && write(write_fd, record, size) != (ssize_t)size)
			break;
	}
	close(aside[0]);
	close(aside[1]);
}
