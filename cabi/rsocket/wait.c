/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for one socket. poll.c waits for many. */
#include "defaults.h"
#include "giveway.h"
#include "watch.h"

#include <limits.h>
#include <poll.h>
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
	switch (vb_giveway_next(&giveway, empty)) {
	case VB_YIELD:
		before = now_ns();
		sched_yield();
		after = now_ns();
		vb_giveway_yielded(&giveway, after, after - before);
		return true;
	case VB_NAP:
		return false;
	case VB_STAY:
		break;
	}
	return true;
}

/* Polls for polling_time first: to sleep and be woken costs more than that. */
static bool spin(struct rs_socket *s, bool (*ready)(struct rs_socket *s))
{
	int64_t end = rs_now_us() + rs_defaults()->polling_time_us;
	bool on;

	for (unsigned empty = 0;; empty++) {
		pthread_mutex_unlock(&s->mu); /* other threads may take the lock */
		on = rs_spin_on(end, empty);
		pthread_mutex_lock(&s->mu);
		if (!on)
			return false;
		s->ops->progress(s);
		if (ready(s))
			return true;
	}
}

static int timeout_ms(int64_t deadline)
{
	if (deadline == RS_FOREVER)
		return -1;
	int64_t left = (deadline - rs_now_us() + 999) / 1000;

	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int rs_wait(struct rs_socket *s, bool (*ready)(struct rs_socket *s), bool nonblock,
	    int64_t deadline)
{
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
	struct rs_watcher watcher;
	int error = 0;

	if (bell < 0)
		return bell;
	rs_watch(s, &watcher, bell);
	while (!error) {
		s->ops->arm(s);
		s->ops->progress(s); /* completions from before the arming */
		if (ready(s))
			break;
		struct pollfd fds[2] = { { .fd = bell, .events = POLLIN },
					 { .fd = s->ops->event_fd(s), .events = POLLIN } };
		int timeout = timeout_ms(deadline);

		pthread_mutex_unlock(&s->mu);
		int n = poll(fds, 2, timeout);

		if (n < 0)
			error = -errno;
		else if (n == 0)
			error = -ETIMEDOUT;
		else if (fds[0].revents)
			rs_bell_silence();
		pthread_mutex_lock(&s->mu);
		if (fds[1].revents)
			s->ops->take_event(s);
		s->ops->progress(s);
		if (ready(s)) {
			error = 0;
			break;
		}
	}
	rs_unwatch(&watcher);
	return error;
}
