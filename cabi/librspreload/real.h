/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of the C library that this library replaces. */
#ifndef VERBENA_RSPRELOAD_REAL_H
#define VERBENA_RSPRELOAD_REAL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct real {
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *addr, socklen_t length);
	int (*listen)(int fd, int backlog);
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *length, int flags);
	int (*connect)(int fd, const struct sockaddr *addr, socklen_t length);
	int (*shutdown)(int fd, int how);
	int (*close)(int fd);
	int (*dup)(int fd);
	int (*dup2)(int fd, int to);
	int (*dup3)(int fd, int to, int flags);
	ssize_t (*recv)(int fd, void *buf, size_t length, int flags);
	ssize_t (*recvfrom)(int fd, void *buf, size_t length, int flags, struct sockaddr *from,
			    socklen_t *from_length);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	ssize_t (*read)(int fd, void *buf, size_t length);
	ssize_t (*readv)(int fd, const struct iovec *iov, int count);
	ssize_t (*send)(int fd, const void *buf, size_t length, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t length, int flags,
			  const struct sockaddr *to, socklen_t to_length);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*write)(int fd, const void *buf, size_t length);
	ssize_t (*writev)(int fd, const struct iovec *iov, int count);
	ssize_t (*sendfile)(int out, int in, off_t *offset, size_t count);
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout);
	int (*select)(int nfds, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout);
	int (*getpeername)(int fd, struct sockaddr *addr, socklen_t *length);
	int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *length);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t length);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *length);
	int (*fcntl)(int fd, int command, ...);
	int (*ioctl)(int fd, unsigned long request, ...);
	int (*ppoll)(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		     const sigset_t *mask);
	int (*epoll_ctl)(int epfd, int operation, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epfd, struct epoll_event *events, int most, int timeout);
	int (*epoll_pwait)(int epfd, struct epoll_event *events, int most, int timeout,
			   const sigset_t *mask);
};

/* May be called before constructors have run. */
const struct real *real(void);

/*
 * Returns whether code at an address belongs to librdmacm, whose own sockets stay those of the
 * kernel.
 */
bool from_librdmacm(const void *address);

#endif
