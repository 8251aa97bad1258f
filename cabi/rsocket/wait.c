/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for one socket. poll.c waits for many. */
#include "defaults.h"
#include "watch.h"

#include <limits.h>
#include <poll.h>

/* Polls for polling_time first: to sleep and be woken costs more than that. */
static bool spin(struct rs_socket *s, bool (*ready)(struct rs_socket *s))
{
	int64_t end = rs_now_us() + rs_defaults()->polling_time_us;

	do {
		pthread_mutex_unlock(&s->mu); /* other threads may take the lock */
		pthread_mutex_lock(&s->mu);
		s->ops->progress(s);
		if (ready(s))
			return true;
	} while (rs_now_us() < end);
	return false;
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
