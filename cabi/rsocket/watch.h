/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep until a socket changes.
 *
 * Each thread has a bell, an eventfd. Before it sleeps it leaves a watcher with every socket that
 * it waits for. Then it sleeps on the bell and on the completion queues of these sockets
 * (vb_sleep). A thread that changes a socket rings the bells of its watchers: it may have taken the
 * completion that another thread waits for.
 */
#ifndef VERBENA_RSOCKET_WATCH_H
#define VERBENA_RSOCKET_WATCH_H

#include "socket.h"

struct rs_watcher {
	int bell;
	struct rs_watcher *next, **previous;
};

/* Returns the calling thread's bell, or a negative errno. */
int rs_bell(void);
void rs_bell_silence(void);

/* The caller holds mu. */
void rs_watch(struct rs_socket *s, struct rs_watcher *watcher, int bell);
void rs_unwatch(struct rs_watcher *watcher);
/* Wakes the watchers, except those of the calling thread. */
void rs_ring(struct rs_socket *s);

/*
 * Returns whether the thread is to check once more before it sleeps, which has found nothing so
 * often in a row: end (of rs_now_us) has not come. It gives the core away first if the peer may be
 * waiting for it.
 */
bool rs_spin_on(int64_t end, unsigned empty);

/* No time limit, for rs_wait. */
#define RS_FOREVER INT64_MAX

/*
 * Makes progress until ready returns true. The caller holds mu, as does ready. Returns -EAGAIN at
 * once if nonblock, -ETIMEDOUT at the deadline (of rs_now_us), and -EINTR after a signal whose
 * handler lacks SA_RESTART. Closing a socket makes its waiters ready. A thread that is cancelled
 * leaves mu unlocked.
 */
int rs_wait(struct rs_socket *s, bool (*ready)(struct rs_socket *s), bool nonblock,
	    int64_t deadline);

#endif
