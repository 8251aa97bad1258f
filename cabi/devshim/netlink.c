/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA, by which the program rdma lists devices. Under `verbena run` such a
 * socket is one end of a pair, and verbena-keeper answers at the other one. So send, poll and close
 * are the system's; the calls below hide that addresses are not those of netlink.
 */
#include "foreign.h"
#include "helper.h"
#include "next.h"
#include "path.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of sockets that are open at a time, those beyond get no addresses of netlink. */
#define MOST 64

/* The sockets that were made: a descriptor may be another file's later, so its inode says which. */
static _Atomic ino_t made[MOST];
static atomic_uint count; /* of sockets that were made; the last ones are known */

static ino_t inode_of(int fd)
{
	struct stat s;

	return fstat(fd, &s) || !S_ISSOCK(s.st_mode) ? 0 : s.st_ino;
}

/* Returns whether the descriptor is one of these sockets. Keeps errno. */
static int ours(int fd)
{
	unsigned n = atomic_load_explicit(&count, memory_order_relaxed);
	int before, found = 0;
	ino_t inode;

	if (n == 0)
		return 0;
	if (n > MOST)
		n = MOST;
	before = errno;
	inode = inode_of(fd);
	for (unsigned i = 0; inode && !found && i < n; i++)
		found = atomic_load(&made[i]) == inode;
	errno = before;
	return found;
}

/* A program that makes many has closed old ones. */
static void note(int fd)
{
	atomic_store(&made[atomic_fetch_add(&count, 1) % MOST], inode_of(fd));
}

NEXT(socket, int(int, int, int))
EXPORT int socket(int domain, int type, int protocol)
{
	int fd;

	if (!next_socket())
		return -1;
	/* Another libibverbs would list devices that it cannot open. */
	if (domain != AF_NETLINK || protocol != NETLINK_RDMA || !redirected_root()[0] ||
	    another_is_loaded())
		return next_socket()(domain, type, protocol);
	fd = start_helper("netlink");
	if (fd < 0)
		return -1;
	if (!(type & SOCK_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	if (type & SOCK_NONBLOCK)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	note(fd);
	return fd;
}

NEXT(bind, int(int, const struct sockaddr *, socklen_t))
EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t length)
{
	if (!next_bind())
		return -1;
	return ours(fd) ? 0 : next_bind()(fd, addr, length);
}

/* Writes an address of netlink as the system does: as much of it as there is room for. */
static void put(void *addr, socklen_t *length, unsigned pid)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK, .nl_pid = pid };

	memcpy(addr, &nl, *length < sizeof nl ? *length : sizeof nl);
	*length = sizeof nl;
}

NEXT(getsockname, int(int, struct sockaddr *, socklen_t *))
EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *length)
{
	if (!next_getsockname())
		return -1;
	if (!ours(fd) || !addr || !length)
		return next_getsockname()(fd, addr, length);
	put(addr, length, (unsigned)getpid());
	return 0;
}

NEXT(recvmsg, ssize_t(int, struct msghdr *, int))
EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	socklen_t room;
	ssize_t n;

	if (!next_recvmsg())
		return -1;
	if (!ours(fd) || !m)
		return next_recvmsg()(fd, m, flags);
	room = m->msg_namelen;
	n = next_recvmsg()(fd, m, flags);
	if (n >= 0 && m->msg_name) {
		put(m->msg_name, &room, 0);
		m->msg_namelen = room;
	}
	return n;
}

NEXT(recvfrom, ssize_t(int, void *, size_t, int, struct sockaddr *, socklen_t *))
EXPORT ssize_t recvfrom(int fd, void *b, size_t size, int flags, struct sockaddr *addr,
			socklen_t *length)
{
	ssize_t n;

	if (!next_recvfrom())
		return -1;
	if (!ours(fd) || !addr || !length)
		return next_recvfrom()(fd, b, size, flags, addr, length);
	n = next_recvfrom()(fd, b, size, flags, NULL, NULL);
	if (n >= 0)
		put(addr, length, 0);
	return n;
}

NEXT(setsockopt, int(int, int, int, const void *, socklen_t))
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	if (!next_setsockopt())
		return -1;
	if (level == SOL_NETLINK && ours(fd))
		return 0; /* answers are the same with all of them */
	return next_setsockopt()(fd, level, name, value, length);
}
