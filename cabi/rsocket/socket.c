/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of rsocket(7): they find the socket of a number, call its operation and set errno. */
#include "epoll.h"
#include "socket.h"

#include "datagram.h"
#include "index.h"
#include "order.h"
#include "stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

unsigned rs_generation;
__thread int rs_cancel_state;

static void count_fork(void)
{
	rs_generation++;
}

__attribute__((constructor)) static void register_fork(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

int64_t rs_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

socklen_t rs_addr_length(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

void rs_copy_addr(const struct sockaddr *from, struct sockaddr *to, socklen_t *length)
{
	socklen_t full = rs_addr_length(from);

	if (to && *length)
		memcpy(to, from, *length < full ? *length : full);
	*length = full;
}

void rs_socket_init(struct rs_socket *s, const struct rs_ops *ops, int domain, int type)
{
	s->ops = ops;
	s->number = -1;
	s->domain = domain;
	s->type = type;
	s->generation = rs_generation;
	atomic_init(&s->references, 1);
	pthread_mutex_init(&s->mu, NULL);
}

void rs_put(struct rs_socket *s)
{
	vb_order_before(s);
	if (atomic_fetch_sub(&s->references, 1) == 1) {
		vb_order_after(s);
		s->ops->free(s);
	}
}

/* Turns the result of an operation into that of a call. */
static ssize_t result(ssize_t result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* A call on a socket, to which it has a reference. */
struct call {
	struct rs_call call;
	struct rs_socket *s;
};

static void end(void *argument)
{
	struct call *c = argument;

	rs_put(c->s);
	rs_call_end(&c->call);
}

/* Evaluates work for the socket s_ of a number. */
#define WITH(number, work)                                         \
	({                                                         \
		struct rs_socket *s_ = rs_index_get(number);       \
		struct call call_ = { .s = s_ };                   \
		volatile ssize_t result_ = -EBADF;                 \
		if (s_) {                                          \
			pthread_cleanup_push(end, &call_);         \
			rs_call_begin(&call_.call);                \
			result_ = work;                            \
			pthread_cleanup_pop(1);                    \
		}                                                  \
		result(result_);                                   \
	})

/* Calls an operation of the socket that has a number. */
#define CALL(number, operation, ...) WITH(number, s_->ops->operation(s_, ##__VA_ARGS__))

VB_RETURNS_COUNT(int, rsocket, (int domain, int type, int protocol), (domain, type, protocol))
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct rs_socket *s;
	int number;

	if (domain != AF_INET && domain != AF_INET6)
		return (int)result(-ENOTSUP);
	if (kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP))
		number = rs_stream_new(domain, &s);
	else if (kind == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))
		number = rs_datagram_new(domain, &s);
	else
		number = -ENOTSUP;
	if (number < 0)
		return (int)result(number);
	atomic_store(&s->descriptor_flags, type & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
	atomic_store(&s->status_flags, O_RDWR | (type & SOCK_NONBLOCK ? O_NONBLOCK : 0));
	int error = rs_index_insert(s, number);

	rs_put(s);
	return (int)result(error ? error : number);
}

VB_RETURNS_COUNT(int, rbind, (int socket, const struct sockaddr *addr, socklen_t addrlen),
		 (socket, addr, addrlen))
{
	return (int)CALL(socket, bind, addr, addrlen);
}

VB_RETURNS_COUNT(int, rlisten, (int socket, int backlog), (socket, backlog))
{
	return (int)CALL(socket, listen, backlog);
}

VB_RETURNS_COUNT(int, raccept, (int socket, struct sockaddr *addr, socklen_t *addrlen),
		 (socket, addr, addrlen))
{
	return (int)CALL(socket, accept, addr, addrlen);
}

VB_RETURNS_COUNT(int, rconnect, (int socket, const struct sockaddr *addr, socklen_t addrlen),
		 (socket, addr, addrlen))
{
	return (int)CALL(socket, connect, addr, addrlen);
}

VB_RETURNS_COUNT(int, rshutdown, (int socket, int how), (socket, how))
{
	return (int)CALL(socket, shutdown, how);
}

static int close_number(int number)
{
	if (rs_index_disown(number))
		return 0;
	struct rs_socket *s = rs_index_get(number);

	if (!s && rs_epoll_close(number))
		return 0;
	if (!s || atomic_exchange(&s->closing, true)) {
		if (s)
			rs_put(s);
		return -EBADF;
	}
	rs_epoll_forget(number);
	s->ops->close(s);
	rs_index_remove(s);
	rs_put(s);
	return 0;
}

/* It is not cancelled, which would lose data. */
VB_RETURNS_COUNT(int, rclose, (int socket), (socket))
{
	struct rs_call call;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	rs_call_begin(&call);
	int error = close_number(socket);

	rs_call_end(&call);
	pthread_setcancelstate(state, NULL);
	return (int)result(error);
}

static ssize_t receive(int socket, void *buf, size_t len, int flags, struct sockaddr *src,
		       socklen_t *srclen)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (src && srclen) {
		msg.msg_name = src;
		msg.msg_namelen = *srclen;
	}
	ssize_t n = CALL(socket, receive, &msg, flags);

	if (n >= 0 && src && srclen)
		*srclen = msg.msg_namelen;
	return n;
}

VB_RETURNS_COUNT(ssize_t, rrecv, (int socket, void *buf, size_t len, int flags),
		 (socket, buf, len, flags))
{
	return receive(socket, buf, len, flags, NULL, NULL);
}

VB_RETURNS_COUNT(ssize_t, rrecvfrom,
	(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen),
	(socket, buf, len, flags, src_addr, addrlen))
{
	return receive(socket, buf, len, flags, src_addr, addrlen);
}

VB_RETURNS_COUNT(ssize_t, rrecvmsg, (int socket, struct msghdr *msg, int flags),
		 (socket, msg, flags))
{
	msg->msg_controllen = 0; /* there is no ancillary data */
	msg->msg_flags = 0;
	return CALL(socket, receive, msg, flags);
}

VB_RETURNS_COUNT(ssize_t, rread, (int socket, void *buf, size_t count), (socket, buf, count))
{
	return receive(socket, buf, count, 0, NULL, NULL);
}

VB_RETURNS_COUNT(ssize_t, rreadv, (int socket, const struct iovec *iov, int iovcnt),
		 (socket, iov, iovcnt))
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov,
			      .msg_iovlen = iovcnt < 0 ? 0 : (size_t)iovcnt };

	return CALL(socket, receive, &msg, 0);
}

static ssize_t send_buffer(int socket, const void *buf, size_t len, int flags,
			   const struct sockaddr *dst, socklen_t dstlen)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct msghdr msg = { .msg_name = (void *)dst,
			      .msg_namelen = dst ? dstlen : 0,
			      .msg_iov = &iov,
			      .msg_iovlen = 1 };

	return CALL(socket, send, &msg, flags);
}

VB_RETURNS_COUNT(ssize_t, rsend, (int socket, const void *buf, size_t len, int flags),
		 (socket, buf, len, flags))
{
	return send_buffer(socket, buf, len, flags, NULL, 0);
}

VB_RETURNS_COUNT(ssize_t, rsendto,
		 (int socket, const void *buf, size_t len, int flags,
		  const struct sockaddr *dest_addr, socklen_t addrlen),
		 (socket, buf, len, flags, dest_addr, addrlen))
{
	return send_buffer(socket, buf, len, flags, dest_addr, addrlen);
}

VB_RETURNS_COUNT(ssize_t, rsendmsg, (int socket, const struct msghdr *msg, int flags),
		 (socket, msg, flags))
{
	if (msg->msg_control && msg->msg_controllen)
		return result(-ENOTSUP);
	return CALL(socket, send, msg, flags);
}

VB_RETURNS_COUNT(ssize_t, rwrite, (int socket, const void *buf, size_t count), (socket, buf, count))
{
	return send_buffer(socket, buf, count, 0, NULL, 0);
}

VB_RETURNS_COUNT(ssize_t, rwritev, (int socket, const struct iovec *iov, int iovcnt),
		 (socket, iov, iovcnt))
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov,
			      .msg_iovlen = iovcnt < 0 ? 0 : (size_t)iovcnt };

	return CALL(socket, send, &msg, 0);
}

VB_RETURNS_COUNT(int, rgetpeername, (int socket, struct sockaddr *addr, socklen_t *addrlen),
		 (socket, addr, addrlen))
{
	return (int)CALL(socket, getpeername, addr, addrlen);
}

VB_RETURNS_COUNT(int, rgetsockname, (int socket, struct sockaddr *addr, socklen_t *addrlen),
		 (socket, addr, addrlen))
{
	return (int)CALL(socket, getsockname, addr, addrlen);
}

VB_RETURNS_COUNT(int, rsetsockopt,
	(int socket, int level, int optname, const void *optval, socklen_t optlen),
	(socket, level, optname, optval, optlen))
{
	return (int)CALL(socket, setsockopt, level, optname, optval, optlen);
}

VB_RETURNS_COUNT(int, rgetsockopt,
	(int socket, int level, int optname, void *optval, socklen_t *optlen),
	(socket, level, optname, optval, optlen))
{
	return (int)CALL(socket, getsockopt, level, optname, optval, optlen);
}

/* The flags are kept here: the descriptors behind a socket never block. */
static VB_RETURNS_COUNT(int, control, (int socket, int cmd, int argument), (socket, cmd, argument))
{
	struct rs_socket *s = rs_index_get(socket);
	ssize_t answer = 0;

	if (!s)
		return (int)result(-EBADF);
	switch (cmd) {
	case F_GETFL:
		answer = atomic_load(&s->status_flags);
		break;
	case F_SETFL:
		atomic_store(&s->status_flags, argument);
		break;
	case F_GETFD:
		answer = atomic_load(&s->descriptor_flags);
		break;
	case F_SETFD:
		atomic_store(&s->descriptor_flags, argument);
		break;
	default:
		answer = -ENOTSUP;
	}
	rs_put(s);
	return (int)result(answer);
}

int rfcntl(int socket, int cmd, ...)
{
	va_list arguments;
	int argument = 0;

	va_start(arguments, cmd);
	if (cmd == F_SETFL || cmd == F_SETFD)
		argument = va_arg(arguments, int);
	va_end(arguments);
	return control(socket, cmd, argument);
}

VB_RETURNS_COUNT(off_t, riomap,
	(int socket, void *buf, size_t len, int prot, int flags, off_t offset),
	(socket, buf, len, prot, flags, offset))
{
	struct rs_socket *s = rs_index_get(socket);

	(void)flags; /* no flag is defined */
	if (!s)
		return result(-EBADF);
	off_t answer = rs_iomap_add(s, buf, len, prot, &offset);

	rs_put(s);
	return answer < 0 ? result(answer) : offset;
}

VB_RETURNS_COUNT(int, riounmap, (int socket, void *buf, size_t len), (socket, buf, len))
{
	struct rs_socket *s = rs_index_get(socket);

	if (!s)
		return (int)result(-EBADF);
	int answer = rs_iomap_remove(s, buf, len);

	rs_put(s);
	return (int)result(answer);
}

VB_RETURNS_COUNT(size_t, riowrite,
		 (int socket, const void *buf, size_t count, off_t offset, int flags),
		 (socket, buf, count, offset, flags))
{
	return (size_t)WITH(socket, rs_iomap_write(s_, buf, count, offset, flags));
}
