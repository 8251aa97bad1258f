/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that make, name and close sockets. */
#include "config.h"
#include "epoll.h"
#include "pass.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Enters a descriptor as e, which belongs to the table then. Returns fd, or -1 with both closed. */
static int enter(int fd, struct entry *e)
{
	if (e && !table_set(fd, e))
		return fd;
	int error = e ? errno : ENOMEM;

	if (e)
		entry_put(e);
	real()->close(fd);
	errno = error;
	return -1;
}

/* Makes it a socket of the kernel alone. */
static void leave_to_kernel(int fd)
{
	struct entry *e = table_take(fd);

	if (e)
		entry_put(e);
}

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = real()->socket(domain, type, protocol);

	if (fd < 0 || from_librdmacm(__builtin_return_address(0)) ||
	    !config_wants(domain, type, protocol))
		return fd;
	if (config_forks() && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM)
		return enter(fd, entry_new(STAGE_TCP, -1));
	int number = rsocket(domain, type, protocol);

	if (number < 0)
		return fd; /* no device: a plain socket */
	config_apply(number);
	struct entry *e = entry_new(STAGE_RSOCKET, number);

	if (!e)
		rclose(number);
	return enter(fd, e);
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t length)
{
	int bound = PASS(fd, rbind(number, addr, length), real()->bind(fd, addr, length));

	if (bound && (errno == ENODEV || errno == EADDRNOTAVAIL) && PASS(fd, 1, 0)) {
		leave_to_kernel(fd); /* no device has the address */
		bound = real()->bind(fd, addr, length);
	}
	return bound;
}

/* Moves an entry on from TCP. */
static void stage(int fd, enum stage from, enum stage to)
{
	struct entry *e = table_get(fd);
	int expected = (int)from;

	if (!e)
		return;
	atomic_compare_exchange_strong(&e->stage, &expected, to);
	entry_put(e);
}

EXPORT int listen(int fd, int backlog)
{
	int listening = PASS(fd, rlisten(number, backlog), real()->listen(fd, backlog));

	if (!listening)
		stage(fd, STAGE_TCP, STAGE_LISTEN);
	return listening;
}

/* Returns the accepted rsocket as accept4(2) returns a socket. */
static int accepted(int listener, int number, int flags)
{
	int domain = AF_INET;
	socklen_t length = sizeof(domain);

	if (number < 0)
		return -1;
	/* O_NONBLOCK of a listener is not inherited. */
	rfcntl(number, F_SETFL, O_RDWR | (flags & SOCK_NONBLOCK ? O_NONBLOCK : 0));
	real()->getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &domain, &length);
	int fd = real()->socket(domain, SOCK_STREAM | flags, 0);
	struct entry *e = fd < 0 ? NULL : entry_new(STAGE_RSOCKET, number);

	if (e)
		return enter(fd, e);
	int error = errno;

	rclose(number);
	if (fd >= 0)
		real()->close(fd);
	errno = error;
	return -1;
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *length, int flags)
{
	struct entry *e = table_get(fd);

	if (!e)
		return real()->accept4(fd, addr, length, flags);
	int number = atomic_load(&e->number), new;

	if (number >= 0) {
		new = accepted(fd, raccept(number, addr, length), flags);
	} else {
		new = real()->accept4(fd, addr, length, flags);
		if (new >= 0 && atomic_load(&e->stage) == STAGE_LISTEN)
			new = enter(new, entry_new(STAGE_PASSIVE, -1));
	}
	entry_put(e);
	return new;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *length)
{
	return accept4(fd, addr, length, 0);
}

/* Returns whether TCP may still reach the peer. The other errors of connect(2) are final. */
static bool may_do_without(int error)
{
	return error != EINPROGRESS && error != EALREADY && error != EISCONN && error != EINTR;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t length)
{
	int connected = PASS(fd, rconnect(number, addr, length), real()->connect(fd, addr, length));

	if (connected && PASS(fd, 1, 0) && may_do_without(errno)) {
		leave_to_kernel(fd);
		return real()->connect(fd, addr, length);
	}
	if (!connected || errno == EINPROGRESS)
		stage(fd, STAGE_TCP, STAGE_ACTIVE);
	return connected;
}

EXPORT int shutdown(int fd, int how)
{
	return PASS(fd, rshutdown(number, how), real()->shutdown(fd, how));
}

EXPORT int close(int fd)
{
	struct entry *e = table_take(fd);

	epoll_forget(fd);
	if (e)
		entry_put(e);
	return real()->close(fd);
}

/* Makes a second descriptor for the socket behind fd. */
static int duplicate(int fd, int new)
{
	struct entry *e = new < 0 ? NULL : table_get(fd);

	if (new >= 0 && fd != new)
		epoll_forget(new); /* dup2 has closed the descriptor */
	if (e && fd != new)
		return enter(new, e);
	if (e)
		entry_put(e);
	else if (new >= 0)
		leave_to_kernel(new);
	return new;
}

EXPORT int dup(int fd)
{
	return duplicate(fd, real()->dup(fd));
}

EXPORT int dup2(int fd, int to)
{
	return duplicate(fd, real()->dup2(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	return duplicate(fd, real()->dup3(fd, to, flags));
}

EXPORT int getpeername(int fd, struct sockaddr *addr, socklen_t *length)
{
	return PASS(fd, rgetpeername(number, addr, length), real()->getpeername(fd, addr, length));
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *length)
{
	return PASS(fd, rgetsockname(number, addr, length), real()->getsockname(fd, addr, length));
}

/* Sets an option on both: the socket of the kernel may have to take over. */
static int set_both(int fd, int number, int level, int name, const void *value, socklen_t length)
{
	int set = rsetsockopt(number, level, name, value, length), error = errno;

	real()->setsockopt(fd, level, name, value, length);
	errno = error;
	return set;
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	return PASS(fd, set_both(fd, number, level, name, value, length),
		    real()->setsockopt(fd, level, name, value, length));
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	return PASS(fd, rgetsockopt(number, level, name, value, length),
		    real()->getsockopt(fd, level, name, value, length));
}

/* Both have the status flags; the kernel has the flags of the descriptor and the rest. */
static int control(int fd, int number, int command, void *argument)
{
	switch (command) {
	case F_GETFL:
		return rfcntl(number, command);
	case F_SETFL:
		real()->fcntl(fd, command, argument);
		return rfcntl(number, command, (int)(intptr_t)argument);
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return duplicate(fd, real()->fcntl(fd, command, argument));
	default:
		return real()->fcntl(fd, command, argument);
	}
}

/* The argument is an int or a pointer: either way it fits. */
EXPORT int fcntl(int fd, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);

	va_end(arguments);
	return PASS(fd, control(fd, number, command, argument), real()->fcntl(fd, command, argument));
}

EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

/* Python and others set O_NONBLOCK by FIONBIO. */
static int set_nonblocking(int number, const int *on)
{
	int flags = rfcntl(number, F_GETFL);

	return rfcntl(number, F_SETFL, *on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);

	va_end(arguments);
	int done = real()->ioctl(fd, request, argument);

	if (done || request != FIONBIO)
		return done;
	return PASS(fd, set_nonblocking(number, argument), done);
}
