/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll: sockets of ours and descriptors of any kind together. */
#include "defaults.h"
#include "index.h"
#include "watch.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Calls with at most this many descriptors allocate nothing. */
#define FEW 16

/* The state of one call. Entry i of sockets, watchers and sleep belongs to fds[i]. */
struct polling {
	struct pollfd *fds;
	nfds_t count;
	bool others; /* some are not rsockets */
	struct rs_socket **sockets; /* a reference each; NULL: no rsocket */
	struct rs_watcher *watchers;
	struct pollfd *sleep; /* descriptors to sleep on, and the bell */
};

/* Asks each rsocket. Returns how many are ready. */
static int ask_sockets(struct polling *p)
{
	int found = 0;

	for (nfds_t i = 0; i < p->count; i++) {
		struct rs_socket *s = p->sockets[i];

		if (!s)
			continue;
		pthread_mutex_lock(&s->mu);
		s->ops->progress(s);
		p->fds[i].revents = s->ops->events(s, p->fds[i].events);
		pthread_mutex_unlock(&s->mu);
		found += p->fds[i].revents != 0;
	}
	return found;
}

/* Lists the descriptors to sleep on. Those behind rsockets are among them if events is set. */
static void list_descriptors(struct polling *p, bool events)
{
	for (nfds_t i = 0; i < p->count; i++) {
		struct rs_socket *s = p->sockets[i];

		p->sleep[i] = s ? (struct pollfd){ .fd = -1, .events = POLLIN } : p->fds[i];
		p->sleep[i].revents = 0;
		if (s && events) {
			pthread_mutex_lock(&s->mu);
			p->sleep[i].fd = s->ops->event_fd(s);
			pthread_mutex_unlock(&s->mu);
		}
	}
}

/* Copies the answer of the kernel for descriptors that are not rsockets. */
static int take_answers(struct polling *p)
{
	int found = 0;

	for (nfds_t i = 0; i < p->count; i++) {
		if (p->sockets[i])
			continue;
		p->fds[i].revents = p->sleep[i].revents;
		found += p->fds[i].revents != 0;
	}
	return found;
}

/*
 * Checks all descriptors without sleeping. Returns the number that are ready, or a negative errno.
 */
static int look(struct polling *p)
{
	int found = ask_sockets(p);

	if (!p->others)
		return found;
	list_descriptors(p, false);
	if (poll(p->sleep, p->count, 0) < 0)
		return -errno;
	return found + take_answers(p);
}

static void arm(struct polling *p)
{
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->sockets[i])
			continue;
		pthread_mutex_lock(&p->sockets[i]->mu);
		p->sockets[i]->ops->arm(p->sockets[i]);
		pthread_mutex_unlock(&p->sockets[i]->mu);
	}
}

static int milliseconds_left(int64_t deadline)
{
	int most = (int)rs_defaults()->wake_up_interval_ms;

	if (deadline == RS_FOREVER)
		return most;
	int64_t left = (deadline - rs_now_us() + 999) / 1000;

	return left < 0 ? 0 : left < most ? (int)left : most;
}

/*
 * Sleeps until a descriptor may have become ready. Returns the number that did, or a negative
 * errno.
 */
static int sleep_once(struct polling *p, int bell, int64_t deadline)
{
	arm(p);
	int found = look(p); /* completions from before the arming */

	if (found)
		return found;
	list_descriptors(p, true);
	p->sleep[p->count] = (struct pollfd){ .fd = bell, .events = POLLIN };
	if (poll(p->sleep, p->count + 1, milliseconds_left(deadline)) < 0)
		return -errno;
	if (p->sleep[p->count].revents)
		rs_bell_silence();
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->sockets[i] || !p->sleep[i].revents)
			continue;
		pthread_mutex_lock(&p->sockets[i]->mu);
		p->sockets[i]->ops->take_event(p->sockets[i]);
		pthread_mutex_unlock(&p->sockets[i]->mu);
	}
	return look(p);
}

static void watch_all(struct polling *p, int bell)
{
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->sockets[i])
			continue;
		pthread_mutex_lock(&p->sockets[i]->mu);
		rs_watch(p->sockets[i], &p->watchers[i], bell);
		pthread_mutex_unlock(&p->sockets[i]->mu);
	}
}

static void unwatch_all(struct polling *p)
{
	for (nfds_t i = 0; i < p->count; i++) {
		if (!p->sockets[i])
			continue;
		pthread_mutex_lock(&p->sockets[i]->mu);
		rs_unwatch(&p->watchers[i]);
		pthread_mutex_unlock(&p->sockets[i]->mu);
	}
}

/* Returns a count or a negative errno. */
static int wait_for_any(struct polling *p, int timeout)
{
	int64_t start = rs_now_us();
	int64_t deadline = timeout < 0 ? RS_FOREVER : start + (int64_t)timeout * 1000;
	int found;

	for (unsigned empty = 0;; empty++) {
		found = look(p);
		if (found || !timeout)
			return found;
		if (!rs_spin_on(start + rs_defaults()->polling_time_us, empty))
			break;
	}

	int bell = rs_bell();

	if (bell < 0)
		return bell;
	watch_all(p, bell);
	do {
		found = sleep_once(p, bell, deadline);
	} while (!found && rs_now_us() < deadline);
	unwatch_all(p);
	return found;
}

VB_RETURNS_COUNT(int, rpoll, (struct pollfd *fds, nfds_t nfds, int timeout), (fds, nfds, timeout))
{
	struct {
		struct rs_socket *sockets[FEW];
		struct rs_watcher watchers[FEW];
		struct pollfd sleep[FEW + 1];
	} few;
	struct polling p = { .fds = fds,
			     .count = nfds,
			     .sockets = few.sockets,
			     .watchers = few.watchers,
			     .sleep = few.sleep };
	const size_t each = sizeof(*p.sockets) + sizeof(*p.watchers) + sizeof(*p.sleep);
	void *memory = NULL;

	if (nfds > FEW) {
		/* The arrays lie in one allocation, those with the strictest alignment first. */
		memory = nfds > INT_MAX ? NULL : calloc(nfds + 1, each);
		if (!memory) {
			errno = nfds > INT_MAX ? EINVAL : ENOMEM;
			return -1;
		}
		p.sockets = memory;
		p.watchers = (struct rs_watcher *)(p.sockets + nfds);
		p.sleep = (struct pollfd *)(p.watchers + nfds);
	}
	for (nfds_t i = 0; i < nfds; i++) {
		p.sockets[i] = rs_index_get(fds[i].fd);
		p.others |= !p.sockets[i];
		fds[i].revents = 0;
	}
	int found = wait_for_any(&p, timeout);

	for (nfds_t i = 0; i < nfds; i++) {
		if (p.sockets[i])
			rs_put(p.sockets[i]);
	}
	free(memory);
	if (found < 0)
		errno = -found;
	return found < 0 ? -1 : found;
}
