/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for one socket. poll.c waits for many. */
#include "../libibverbs/restart.h"
#include "../libibverbs/sleep.h"
#include "defaults.h"
#include "giveway.h"
#include "watch.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool rs_spin_on(int64_t end, unsigned empty)
{
	static __thread struct vb_giveway giveway;
	uint64_t before, after;

	if (rs_now_us() >= end)
		return false;
	switch (vb_giveway_next(&giveway, empty, 1, 0)) {
	case VB_YIELD:
		before = now_ns();
		sched_yield();
		after = now_ns();
		vb_giveway_yielded(&giveway, after, after - before, 0);
		return true;
	case VB_SLEEP:
		vb_giveway_slept(&giveway, now_ns(), 0, 0);
		return false;
	case VB_STAY:
		break;
	}
	return true;
}

/*
 * Polls for polling_time first: to sleep and be woken costs more than that. If it returns false the
 * socket was not ready since the lock was last taken.
 */
static bool spin(struct rs_socket *s, bool (*ready)(struct rs_socket *s))
{
	int64_t end = rs_now_us() + rs_defaults()->polling_time_us;
	bool on;

	for (unsigned empty = 0;; empty++) {
		pthread_mutex_unlock(&s->mu); /* other threads may take the lock */
		on = rs_spin_on(end, empty);
		pthread_mutex_lock(&s->mu);
		s->ops->progress(s);
		if (ready(s))
			return true;
		if (!on)
			return false;
	}
}

static int timeout_ms(int64_t deadline)
{
	if (deadline == RS_FOREVER)
		return -1;
	int64_t left = (deadline - rs_now_us() + 999) / 1000;

	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* A thread that sleeps for a socket. */
struct sleeper {
	struct rs_socket *s;
	struct rs_watcher watcher;
	struct vb_sleep sleep;
};

/* Ends the sleep of a thread that is cancelled. */
static void forget(void *sleeper)
{
	struct sleeper *r = sleeper;

	vb_sleep_end(&r->sleep);
	pthread_mutex_lock(&r->s->mu);
	rs_unwatch(&r->watcher);
	pthread_mutex_unlock(&r->s->mu);
}

/* Sleeps until the socket may have changed. Returns 0 or a negative errno. The caller holds mu. */
static int sleep_once(struct sleeper *r, int64_t deadline)
{
	struct rs_socket *s = r->s;
	volatile int n;

	vb_sleep_begin(&r->sleep, r->watcher.bell, rs_cancel_state);
	n = s->ops->sleep_on(s, &r->sleep);
	if (!n) {
		pthread_mutex_unlock(&s->mu);
		pthread_cleanup_push(forget, r);
		n = vb_sleep(&r->sleep, timeout_ms(deadline));
		pthread_cleanup_pop(0);
		if (n > 0)
			rs_bell_silence();
		pthread_mutex_lock(&s->mu);
	}
	vb_sleep_end(&r->sleep);
	return n < 0 ? n : 0;
}

int rs_wait(struct rs_socket *s, bool (*ready)(struct rs_socket *s), bool nonblock,
	    int64_t deadline)
{
	struct sleeper r = { .s = s };
	int error = 0;

	if (ready(s))
		return 0;
	s->ops->progress(s);
	if (ready(s))
		return 0;
	if (nonblock)
		return -EAGAIN;
	if (spin(s, ready))
		return 0;

	int bell = rs_bell();

	if (bell < 0)
		return bell;
	rs_watch(s, &r.watcher, bell);
	while (!error) {
		error = sleep_once(&r, deadline);
		s->ops->progress(s);
		if (ready(s)) {
			error = 0;
			break;
		}
		if (error == -EINTR && vb_restarts())
			error = 0;
		if (!error && rs_now_us() >= deadline)
			error = -ETIMEDOUT;
	}
	rs_unwatch(&r.watcher);
	return error;
}
