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
struct vb_sleep;

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
	/* Adds the completion queues to what a thread sleeps on: 0 or a negative errno. */
	int (*sleep_on)(struct rs_socket *s, struct vb_sleep *sleep);
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

/*
 * Calls hold locks, and so the thread is cancelled only while it sleeps, and only if the
 * application has not disabled that.
 */
struct rs_call {
	int before;
};

extern __thread int rs_cancel_state; /* of the application, for a thread that sleeps in a call */

static inline void rs_call_begin(struct rs_call *call)
{
	call->before = rs_cancel_state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &rs_cancel_state);
}

static inline void rs_call_end(struct rs_call *call)
{
	int state = rs_cancel_state;

	rs_cancel_state = call->before; /* not 0 where a signal's handler has interrupted a sleep */
	pthread_setcancelstate(state, NULL);
}

/* For pthread_cleanup_push. */
static inline void rs_unlock(void *mu)
{
	pthread_mutex_unlock(mu);
}

#endif
