/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep until something happens to a socket.
 *
 * Each thread has a bell, an eventfd. Who is about to sleep leaves a watcher
 * with every socket that it waits for and sleeps on its bell and on the
 * sockets' event descriptors. Whoever changes a socket rings its watchers: a
 * completion is taken by one thread and may be what another one waits for.
 */
#ifndef VERBENA_RSOCKET_WATCH_H
#define VERBENA_RSOCKET_WATCH_H

#include "socket.h"

struct rs_watcher {
	int bell;
	struct rs_watcher *next, **previous;
};

/* The calling thread's bell, or a negative errno. */
int rs_bell(void);
void rs_bell_silence(void);

/* With mu held. */
void rs_watch(struct rs_socket *s, struct rs_watcher *watcher, int bell);
void rs_unwatch(struct rs_watcher *watcher);
/* Wakes the watchers, except those of the calling thread. */
void rs_ring(struct rs_socket *s);

/* No time limit, for rs_wait. */
#define RS_FOREVER INT64_MAX

/*
 * Makes progress until ready says so, with mu held on entry, on return and in
 * ready. Gives up at once with -EAGAIN if nonblock, at the deadline (of
 * rs_now_us) with -ETIMEDOUT, and when a signal comes with -EINTR. What closes
 * a socket makes its waiters ready.
 */
int rs_wait(struct rs_socket *s, bool (*ready)(struct rs_socket *s), bool nonblock, int64_t deadline);

#endif
