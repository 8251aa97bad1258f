/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll: sockets of ours and descriptors of any kind together. */
#include "../libibverbs/sleep.h"
#include "defaults.h"
#include "index.h"
#include "watch.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Calls with at most this many descriptors allocate nothing. */
#define FEW 16

/* The state of one call. Entry i of sockets, watchers and answers belongs to fds[i]. */
struct polling {
	struct rs_call call;
	struct pollfd *fds;
	nfds_t count;
	bool others; /* some are not rsockets */
	bool watched;
	struct rs_socket **sockets; /* a reference each; NULL: no rsocket */
	struct rs_watcher *watchers;
	struct pollfd *answers; /* of the kernel, for descriptors that are not rsockets */
	void *memory;
	struct vb_sleep sleep;
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

/* Copies the answer of the kernel for descriptors that are not rsockets. */
static int take_answers(struct polling *p)
{
	int found = 0;

	for (nfds_t i = 0; i < p->count; i++) {
		if (p->sockets[i])
			continue;
		p->fds[i].revents = p->answers[i].revents;
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
	for (nfds_t i = 0; i < p->count; i++) {
		p->answers[i] = p->fds[i];
		if (p->sockets[i])
			p->answers[i].fd = -1;
	}
	if (poll(p->answers, p->count, 0) < 0)
		return -errno;
	return found + take_answers(p);
}

static int milliseconds_left(int64_t deadline)
{
	int most = (int)rs_defaults()->wake_up_interval_ms;

	if (deadline == RS_FOREVER)
		return most;
	int64_t left = (deadline - rs_now_us() + 999) / 1000;

	return left < 0 ? 0 : left < most ? (int)left : most;
}

/* Describes what to sleep on. Returns 0 or a negative errno. */
static int describe(struct polling *p, int bell)
{
	int error = 0;

	vb_sleep_begin(&p->sleep, bell, rs_cancel_state);
	for (nfds_t i = 0; i < p->count && !error; i++) {
		struct rs_socket *s = p->sockets[i];

		if (!s) {
			error = -vb_sleep_add_fd(&p->sleep, p->fds[i].fd, p->fds[i].events);
			continue;
		}
		pthread_mutex_lock(&s->mu);
		error = s->ops->sleep_on(s, &p->sleep);
		pthread_mutex_unlock(&s->mu);
	}
	return error;
}

/* Sleeps until a descriptor may have become ready. Returns 0 or a negative errno. */
static int sleep_once(struct polling *p, int bell, int64_t deadline)
{
	int error = describe(p, bell);

	if (!error)
		error = vb_sleep(&p->sleep, milliseconds_left(deadline));
	if (vb_sleep_rang(&p->sleep))
		rs_bell_silence();
	vb_sleep_end(&p->sleep);
	return error < 0 ? error : 0;
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
	p->watched = true;
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
	p->watched = false;
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
	for (;;) {
		found = look(p);
		if (found || rs_now_us() >= deadline)
			break;
		found = sleep_once(p, bell, deadline);
		if (found)
			break;
	}
	unwatch_all(p);
	return found;
}

/* Ends the call of a thread, which may be cancelled. */
static void end(void *polling)
{
	struct polling *p = polling;

	if (p->watched) {
		vb_sleep_end(&p->sleep);
		unwatch_all(p);
	}
	for (nfds_t i = 0; i < p->count; i++) {
		if (p->sockets[i])
			rs_put(p->sockets[i]);
	}
	free(p->memory);
	rs_call_end(&p->call);
}

VB_RETURNS_COUNT(int, rpoll, (struct pollfd *fds, nfds_t nfds, int timeout), (fds, nfds, timeout))
{
	struct {
		struct rs_socket *sockets[FEW];
		struct rs_watcher watchers[FEW];
		struct pollfd answers[FEW];
	} few;
	struct polling p = { .fds = fds,
			     .count = nfds,
			     .sockets = few.sockets,
			     .watchers = few.watchers,
			     .answers = few.answers };
	const size_t each = sizeof(*p.sockets) + sizeof(*p.watchers) + sizeof(*p.answers);
	volatile int found;

	if (nfds > FEW) {
		/* The arrays lie in one allocation, those with the strictest alignment first. */
		p.memory = nfds > INT_MAX ? NULL : calloc(nfds, each);
		if (!p.memory) {
			errno = nfds > INT_MAX ? EINVAL : ENOMEM;
			return -1;
		}
		p.sockets = p.memory;
		p.watchers = (struct rs_watcher *)(p.sockets + nfds);
		p.answers = (struct pollfd *)(p.watchers + nfds);
	}
	for (nfds_t i = 0; i < nfds; i++) {
		p.sockets[i] = rs_index_get(fds[i].fd);
		p.others |= !p.sockets[i];
		fds[i].revents = 0;
	}
	rs_call_begin(&p.call);
	pthread_cleanup_push(end, &p);
	found = wait_for_any(&p, timeout);
	pthread_cleanup_pop(1);
	if (found < 0)
		errno = -found;
	return found < 0 ? -1 : found;
}
