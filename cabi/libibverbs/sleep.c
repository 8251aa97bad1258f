/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "sleep.h"

#include "channel.h"
#include "cq.h"
#include "fork.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -- the reader ---------------------------------------------------------------------- */

/*
 * A reader that wakes up so often in a row for others only reads no more until it has had a message
 * of its own. Otherwise each message for a thread that polls, or that sleeps beside it, would wake
 * both.
 */
#define VAIN 8

static struct {
	pthread_mutex_t mu;
	/* guarded by mu */
	struct vb_sleep *reader;
	struct vb_sleep *others; /* the newest first: it is the next to get a message, as a rule */
} sleepers = {.mu = PTHREAD_MUTEX_INITIALIZER};

/*
 * Enters a thread, as the reader where there is none. Where another thread polls, that reads sooner
 * than one that wakes up.
 */
static void enter(struct vb_sleep *s)
{
	int may_read = s->vain < VAIN && !vb_channel_another_polls();

	s->more = 0;
	s->how = VB_TAKE_LEAVE;
	pthread_mutex_lock(&sleepers.mu);
	if (may_read && !sleepers.reader) {
		sleepers.reader = s;
		s->how = VB_TAKE_WAIT;
		s->fds[s->count] = (struct pollfd){.fd = s->bell, .events = POLLIN};
		s->fds[s->count + 1] = (struct pollfd){.fd = s->sockets, .events = POLLIN};
		s->more = 2;
	} else {
		s->next = sleepers.others;
		sleepers.others = s;
	}
	pthread_mutex_unlock(&sleepers.mu);
}

static void ring(int bell)
{
	uint64_t one = 1;

	while (write(bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/*
 * Removes a thread, which may be in neither place in a child of a fork. If it was the reader it
 * wakes another thread, which then reads.
 */
static void leave(struct vb_sleep *s)
{
	struct vb_sleep **p, *next;

	pthread_mutex_lock(&sleepers.mu);
	if (sleepers.reader == s)
		sleepers.reader = NULL;
	for (p = &sleepers.others; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	for (next = sleepers.others; next && next->vain == VAIN; next = next->next)
		;
	if (next && !sleepers.reader)
		ring(next->fds[0].fd);
	pthread_mutex_unlock(&sleepers.mu);
}

void vb_sleepers_before_fork(void)
{
	pthread_mutex_lock(&sleepers.mu);
}

void vb_sleepers_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&sleepers.mu);
}

/* A child has none of the threads. */
void vb_sleepers_after_fork_in_child(void)
{
	sleepers.reader = sleepers.others = NULL;
	pthread_mutex_unlock(&sleepers.mu);
}

/* -- its description ----------------------------------------------------------------- */

void vb_sleep_begin(struct vb_sleep *s, int bell, int cancel_state)
{
	s->fds = s->few_fds;
	s->cqs = s->few_cqs;
	s->count = 0;
	s->room = VB_SLEEP_FEW;
	s->engine = NULL;
	s->bell = s->sockets = -1;
	s->cancel_state = cancel_state;
	vb_sleep_add_fd(s, bell, POLLIN);
}

static void free_arrays(struct vb_sleep *s)
{
	if (s->fds != s->few_fds)
		free(s->fds);
	if (s->cqs != s->few_cqs)
		free(s->cqs);
}

static int grow(struct vb_sleep *s)
{
	unsigned room = 2 * s->room;
	struct pollfd *fds = malloc((room + 2) * sizeof(*fds));
	vb_handle *cqs = malloc(room * sizeof(*cqs));

	if (!fds || !cqs) {
		free(fds);
		free(cqs);
		return ENOMEM;
	}
	memcpy(fds, s->fds, s->count * sizeof(*fds));
	memcpy(cqs, s->cqs, s->count * sizeof(*cqs));
	free_arrays(s);
	s->fds = fds;
	s->cqs = cqs;
	s->room = room;
	return 0;
}

static int add(struct vb_sleep *s, int fd, short events, vb_handle cq)
{
	if (s->count == s->room && grow(s))
		return ENOMEM;
	s->fds[s->count] = (struct pollfd){.fd = fd, .events = events};
	s->cqs[s->count++] = cq;
	return 0;
}

int vb_sleep_add_fd(struct vb_sleep *s, int fd, short events)
{
	return add(s, fd, events, 0);
}

int vb_sleep_add_cq(struct vb_sleep *s, struct ibv_cq *cq)
{
	struct vb_channel *channel = vb_channel_of(cq->channel);

	s->engine = vb_cq_of(cq)->engine;
	s->bell = channel->bell;
	s->sockets = channel->sockets;
	return add(s, channel->event_fd, POLLIN, vb_cq_of(cq)->handle);
}

void vb_sleep_end(struct vb_sleep *s)
{
	free_arrays(s);
}

/* ------------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static int poll_fds(struct vb_sleep *s, int timeout)
{
	int n, before;

	pthread_setcancelstate(s->cancel_state, NULL);
	n = poll(s->fds, s->count + s->more, timeout);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return n < 0 ? -errno : n;
}

/* Returns how many of the caller's descriptors are ready. */
static int ready(const struct vb_sleep *s)
{
	int n = 0;

	for (unsigned i = 0; i < s->count; i++)
		n += !s->cqs[i] && s->fds[i].revents;
	return n;
}

static void woken(void *sleep)
{
	struct vb_sleep *s = sleep;

	s->engine->cqs_woken(s->cqs, s->count, s->how);
	leave(s);
}

/* Waits until a descriptor is ready. The thread may be cancelled meanwhile. */
static int wait_ready(struct vb_sleep *s, int timeout)
{
	volatile int n;

	pthread_cleanup_push(woken, s);
	n = poll_fds(s, timeout);
	pthread_cleanup_pop(0);
	return n;
}

/*
 * Waits until a descriptor of the caller is ready, a queue has a completion, or the time is over.
 * cqs_sleep has returned EAGAIN.
 */
static int wait_turns(struct vb_sleep *s, int timeout)
{
	int64_t until = timeout < 0 ? 0 : now_ms() + timeout;

	for (;;) {
		int n = wait_ready(s, timeout), err;

		if (n <= 0 || (n = ready(s))) {
			woken(s);
			return n;
		}
		err = s->engine->cqs_sleep(s->cqs, s->count, (enum vb_take)(s->how | VB_TAKE_WOKEN));
		if (err == EAGAIN && s->how == VB_TAKE_WAIT && ++s->vain == VAIN) {
			woken(s);
			enter(s);
			err = s->engine->cqs_sleep(s->cqs, s->count, s->how);
		}
		if (err != EAGAIN) {
			leave(s);
			return -err;
		}
		if (timeout > 0) {
			int64_t left = until - now_ms();

			timeout = left < 0 ? 0 : (int)left;
		}
	}
}

int vb_sleep(struct vb_sleep *s, int timeout)
{
	int err;

	s->more = s->vain = 0;
	if (!s->engine)
		return poll_fds(s, timeout);
	enter(s);
	err = s->engine->cqs_sleep(s->cqs, s->count, s->how);
	if (err == EAGAIN)
		return wait_turns(s, timeout);
	leave(s);
	return -err;
}
