/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/umadN for libverbena-preload.so: a socket whose other end the engine serves. It
 * keeps messages apart as the kernel's file does.
 */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

VB_PRIVATE int vb_umad_open(const char *device, int flags);
VB_PRIVATE int vb_umad_ioctl(int fd, unsigned long request, void *arg);

/* open(2) of the node of a device, with its flags. */
int vb_umad_open(const char *device, int flags)
{
	const struct vb_engine *engine = vb_engine_get();
	int fds[2], err;

	if (!engine || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -1;
	err = engine->umad_open(device, fds[0], fds[1]); /* fds[1] is the engine's then */
	if (!err && !(flags & O_CLOEXEC) && fcntl(fds[0], F_SETFD, 0))
		err = errno;
	if (!err && flags & O_NONBLOCK && fcntl(fds[0], F_SETFL, O_NONBLOCK))
		err = errno;
	if (!err)
		return fds[0];
	close(fds[0]);
	errno = err;
	return -1;
}

/* ioctl(2). Its errno is ENOTTY for descriptors that vb_umad_open did not return. */
int vb_umad_ioctl(int fd, unsigned long request, void *arg)
{
	const struct vb_engine *engine = vb_engine_get();
	int err = engine ? engine->umad_ioctl(fd, request, arg) : errno;

	errno = err;
	return err ? -1 : 0;
}
