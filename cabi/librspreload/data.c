/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that move data. */
#include "pass.h"

#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

EXPORT ssize_t recv(int fd, void *buf, size_t length, int flags)
{
	return PASS_DATA(fd, rrecv(number, buf, length, flags), real()->recv(fd, buf, length, flags));
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from,
			socklen_t *from_length)
{
	return PASS_DATA(fd, rrecvfrom(number, buf, length, flags, from, from_length),
			 real()->recvfrom(fd, buf, length, flags, from, from_length));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	return PASS_DATA(fd, rrecvmsg(number, msg, flags), real()->recvmsg(fd, msg, flags));
}

EXPORT ssize_t read(int fd, void *buf, size_t length)
{
	return PASS_DATA(fd, rread(number, buf, length), real()->read(fd, buf, length));
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	return PASS_DATA(fd, rreadv(number, iov, count), real()->readv(fd, iov, count));
}

EXPORT ssize_t send(int fd, const void *buf, size_t length, int flags)
{
	return PASS_DATA(fd, rsend(number, buf, length, flags), real()->send(fd, buf, length, flags));
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to,
		      socklen_t to_length)
{
	return PASS_DATA(fd, rsendto(number, buf, length, flags, to, to_length),
			 real()->sendto(fd, buf, length, flags, to, to_length));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return PASS_DATA(fd, rsendmsg(number, msg, flags), real()->sendmsg(fd, msg, flags));
}

EXPORT ssize_t write(int fd, const void *buf, size_t length)
{
	return PASS_DATA(fd, rwrite(number, buf, length), real()->write(fd, buf, length));
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	return PASS_DATA(fd, rwritev(number, iov, count), real()->writev(fd, iov, count));
}

/* The calls of programs built with _FORTIFY_SOURCE. The kernel checks the length, too. */
static void check(size_t length, size_t room)
{
	if (length > room)
		abort();
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags)
{
	check(length, room);
	return recv(fd, buf, length, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags,
			      struct sockaddr *from, socklen_t *from_length)
{
	check(length, room);
	return recvfrom(fd, buf, length, flags, from, from_length);
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t length, size_t room)
{
	check(length, room);
	return read(fd, buf, length);
}

#define CHUNK 65536

/* Sends one chunk of a file. Returns the bytes sent, 0 at its end, or -1. */
static ssize_t send_chunk(int number, int in, off_t *offset, void *chunk, size_t count)
{
	size_t want = count < CHUNK ? count : CHUNK;
	ssize_t got = offset ? pread(in, chunk, want, *offset) : real()->read(in, chunk, want);
	ssize_t sent = got > 0 ? rsend(number, chunk, (size_t)got, 0) : got;

	if (offset && sent > 0)
		*offset += sent;
	else if (!offset && got > 0 && sent < got)
		lseek(in, (sent > 0 ? sent : 0) - got, SEEK_CUR); /* back over unsent bytes */
	return sent;
}

static ssize_t send_file(int number, int in, off_t *offset, size_t count)
{
	void *chunk = malloc(CHUNK);
	size_t done = 0;
	ssize_t n = 1;

	if (!chunk)
		return -1;
	while (done < count && n > 0) {
		n = send_chunk(number, in, offset, chunk, count - done);
		if (n > 0)
			done += (size_t)n;
	}
	free(chunk);
	return done ? (ssize_t)done : n;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return PASS_DATA(out, send_file(number, in, offset, count),
			 real()->sendfile(out, in, offset, count));
}

EXPORT ssize_t sendfile64(int out, int in, off_t *offset, size_t count)
	__attribute__((alias("sendfile")));
