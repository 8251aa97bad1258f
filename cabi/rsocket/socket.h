/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part that streams and datagram sockets have in common: number, reference count, flags,
 * watchers (sleeping threads), and the operations behind the calls of rsocket(7).
 *
 * Operations return 0, a count or a number, or a negative errno, which socket.c turns into errno.
 */
#ifndef VERBENA_RSOCKET_SOCKET_H
#define VERBENA_RSOCKET_SOCKET_H

#include "call.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The library exports the functions of rsocket(7) from this folder. */
#pragma GCC visibility push(default)
#include <rdma/rsocket.h>
#pragma GCC visibility pop

struct rs_socket;
struct rs_watcher;

struct rs_ops {
	int (*bind)(struct rs_socket *s, const struct sockaddr *addr, socklen_t length);
	int (*listen)(struct rs_socket *s, int backlog);
	/* Returns the number of the new socket. */
	int (*accept)(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
	int (*connect)(struct rs_socket *s, const struct sockaddr *addr, socklen_t length);
	int (*shutdown)(struct rs_socket *s, int how);
	/* Closes the connection in order. free follows with the last reference. */
	void (*close)(struct rs_socket *s);
	void (*free)(struct rs_socket *s);

	ssize_t (*receive)(struct rs_socket *s, struct msghdr *msg, int flags);
	ssize_t (*send)(struct rs_socket *s, const struct msghdr *msg, int flags);

	int (*getpeername)(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
	int (*getsockname)(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
	int (*setsockopt)(struct rs_socket *s, int level, int name, const void *value,
			  socklen_t length);
	int (*getsockopt)(struct rs_socket *s, int level, int name, void *value, socklen_t *length);

	/*
	 * Called on the thread of the service when a descriptor that the socket has given to it is
	 * readable.
	 */
	void (*service)(struct rs_socket *s, int which);

	/* The caller of the rest holds mu; they do not block. */

	/* Takes completions and continues the work that waited for them. */
	void (*progress)(struct rs_socket *s);
	/* Returns the events of poll(2). */
	short (*events)(struct rs_socket *s, short wanted);
	/*
	 * Called before each sleep. It makes event_fd readable with the next completion, and has the
	 * next progress tell the engine that the thread may sleep.
	 */
	void (*arm)(struct rs_socket *s);
	int (*event_fd)(struct rs_socket *s); /* -1 without one */
	/* Takes the events that make event_fd readable. */
	void (*take_event)(struct rs_socket *s);
};

struct rs_socket {
	/* immutable */
	const struct rs_ops *ops;
	int number;
	int domain;
	int type;
	unsigned generation; /* rs_generation of its process */

	/* atomic */
	_Atomic int references;
	_Atomic int status_flags;     /* F_GETFL: O_NONBLOCK counts */
	_Atomic int descriptor_flags; /* F_GETFD */
	_Atomic bool closing;

	pthread_mutex_t mu;
	struct rs_watcher *watchers; /* guarded by mu */
};

void rs_socket_init(struct rs_socket *s, const struct rs_ops *ops, int domain, int type);

/*
 * The number of forks between the first process and this one. Sockets of another generation are
 * those of a parent.
 */
extern unsigned rs_generation;

static inline struct rs_socket *rs_hold(struct rs_socket *s)
{
	atomic_fetch_add(&s->references, 1);
	return s;
}

void rs_put(struct rs_socket *s);

static inline bool rs_nonblocking(struct rs_socket *s, int flags)
{
	return (atomic_load(&s->status_flags) & O_NONBLOCK) || (flags & MSG_DONTWAIT);
}

/* Copies an address to the caller, cut to *length, as getsockname(2) does. */
void rs_copy_addr(const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* Returns 0 for a family that is not served. */
socklen_t rs_addr_length(const struct sockaddr *addr);

int64_t rs_now_us(void);

#endif
