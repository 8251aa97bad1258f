/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What streams and datagram sockets have in common: a number that the
 * application knows, a reference count, flags, those who sleep on it, and the
 * operations behind the r-calls.
 *
 * Operations return 0, a count or a number, or a negative errno; socket.c turns
 * that into errno.
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

/* The functions of rsocket(7) are what the library exports of this folder. */
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
	/* Ends it politely. free follows with the last reference. */
	void (*close)(struct rs_socket *s);
	void (*free)(struct rs_socket *s);

	ssize_t (*receive)(struct rs_socket *s, struct msghdr *msg, int flags);
	ssize_t (*send)(struct rs_socket *s, const struct msghdr *msg, int flags);

	int (*getpeername)(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
	int (*getsockname)(struct rs_socket *s, struct sockaddr *addr, socklen_t *length);
	int (*setsockopt)(struct rs_socket *s, int level, int name, const void *value, socklen_t length);
	int (*getsockopt)(struct rs_socket *s, int level, int name, void *value, socklen_t *length);

	/* A descriptor that it gave to the service is readable; in the service's thread. */
	void (*service)(struct rs_socket *s, int which);

	/* The rest is called with mu held and does not block. */

	/* Takes completions and does what they allow. */
	void (*progress)(struct rs_socket *s);
	/* What poll(2) would say. */
	short (*events)(struct rs_socket *s, short wanted);
	/* Has the next completion make event_fd readable. */
	void (*arm)(struct rs_socket *s);
	int (*event_fd)(struct rs_socket *s); /* -1: there is none */
	/* Takes what makes event_fd readable, if anything does. */
	void (*take_event)(struct rs_socket *s);
};

struct rs_socket {
	/* immutable */
	const struct rs_ops *ops;
	int number;
	int domain;
	int type;
	unsigned generation; /* of the process: rs_generation */

	/* atomic */
	_Atomic int references;
	_Atomic int status_flags;     /* F_GETFL: O_NONBLOCK counts */
	_Atomic int descriptor_flags; /* F_GETFD */
	_Atomic bool closing;

	pthread_mutex_t mu;
	struct rs_watcher *watchers; /* guarded by mu */
};

void rs_socket_init(struct rs_socket *s, const struct rs_ops *ops, int domain, int type);

/* Counts the forks above this process: sockets of another generation are the parent's. */
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

/* Copies an address out as getsockname(2) does. */
void rs_copy_addr(const struct sockaddr *from, struct sockaddr *to, socklen_t *length);
/* 0 for families that are none of ours. */
socklen_t rs_addr_length(const struct sockaddr *addr);

int64_t rs_now_us(void);

#endif
