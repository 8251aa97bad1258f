/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel cannot watch an rsocket. A set is one of the kernel's, whose descriptor is its number,
 * and the rsockets beside it. A wait passes them to rpoll together with that descriptor, which is
 * readable when the kernel has events for the others.
 *
 * Deviation: EPOLLET of an rsocket is treated as level-triggered, as rdma-core does. A program that
 * needs every edge stays correct, and sees further events.
 *
 * A child of a fork has its parent's sets, without the threads that wait, and shares what wakes
 * those. It can do nothing with them but close them.
 */
#include "epoll.h"
#include "forklock.h"
#include "index.h"
#include "watch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct member {
	struct member *next;
	int fd;
	bool off; /* EPOLLONESHOT: until EPOLL_CTL_MOD */
	struct epoll_event event;
};

struct set {
	struct set *next;
	/* immutable */
	int fd;
	int changed; /* an eventfd: readable while a thread waits for members of before a change */
	unsigned process; /* rs_generation of the process that made it */
	/* guarded by mu */
	struct member *members;
	unsigned count;
	unsigned references; /* the first is that of sets, the others are of threads that wait */
	uint64_t generation; /* number of changes */
	unsigned stale;	     /* number of threads that wait for members of before a change */
	bool closed;
};

static struct set *sets; /* guarded by mu */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
VB_HELD_OVER_FORK(&mu);

/* A thread that waits. */
struct waiter {
	struct set *set;
	uint64_t generation; /* of fds */
	struct pollfd *fds;  /* the set's descriptor, its changed, its members */
	nfds_t count;
};

enum { SET, CHANGED, MEMBERS };

/* A thread is not cancelled while it holds mu. */
static int lock(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&mu);
	return state;
}

static void unlock(int state)
{
	pthread_mutex_unlock(&mu);
	pthread_setcancelstate(state, NULL);
}

/* The caller of the functions from here on holds mu. */

static struct set *find_set(int fd)
{
	struct set *s = sets;

	while (s && (s->fd != fd || s->process != rs_generation))
		s = s->next;
	return s;
}

static struct member **find(struct set *s, int fd)
{
	struct member **m = &s->members;

	while (*m && (*m)->fd != fd)
		m = &(*m)->next;
	return m;
}

/* Wakes the threads that wait, for them to look at the set anew. */
static void note_change(struct set *s)
{
	s->generation++;
	s->stale = s->references - 1;
	if (s->stale)
		eventfd_write(s->changed, 1);
}

/* Notes that a thread waits for members of before a change no more. */
static void catch_up(struct waiter *w)
{
	eventfd_t value;

	if (w->generation == w->set->generation)
		return;
	w->generation = w->set->generation;
	if (--w->set->stale == 0)
		eventfd_read(w->set->changed, &value);
}

static void free_set(struct set *s)
{
	close(s->fd);
	close(s->changed);
	free(s);
}

static void drop(struct set *s)
{
	if (--s->references == 0)
		free_set(s);
}

static void take_out(struct set *s, struct member **at)
{
	struct member *m = *at;

	*at = m->next;
	s->count--;
	free(m);
}

/* Lists what to wait for: 0 or a negative errno. */
static int list(struct waiter *w)
{
	struct set *s = w->set;
	struct pollfd *fds;

	catch_up(w);
	if (s->closed)
		return -EBADF;
	fds = realloc(w->fds, (MEMBERS + s->count) * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	w->fds = fds;
	fds[SET] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	fds[CHANGED] = (struct pollfd){ .fd = s->changed, .events = POLLIN };
	w->count = MEMBERS;
	for (struct member *m = s->members; m; m = m->next) {
		if (!m->off) /* the same bits as those of poll: epoll_ctl(2) */
			fds[w->count++] = (struct pollfd){
				.fd = m->fd, .events = (short)(m->event.events & 0x7fff)
			};
	}
	return 0;
}

/* Writes the events that rpoll has found for the members. Returns their number. */
static int report(struct waiter *w, struct epoll_event *events, int most)
{
	int n = 0;

	for (nfds_t i = MEMBERS; i < w->count && n < most; i++) {
		struct member *m = w->fds[i].revents ? *find(w->set, w->fds[i].fd) : NULL;

		if (!m || m->off)
			continue;
		m->off = m->event.events & EPOLLONESHOT;
		events[n++] = (struct epoll_event){ .events = (uint32_t)w->fds[i].revents,
						    .data = m->event.data };
	}
	return n;
}

/* Returns 0 or a negative errno. */
static int change(struct set *s, int op, int fd, const struct epoll_event *event)
{
	struct member **at = find(s, fd), *m = *at;

	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return -EINVAL;
	if (op != EPOLL_CTL_DEL && !event)
		return -EFAULT;
	if ((op == EPOLL_CTL_ADD) != !m)
		return m ? -EEXIST : -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		take_out(s, at);
	} else if (m) {
		m->event = *event;
		m->off = false;
	} else {
		m = calloc(1, sizeof(*m));
		if (!m)
			return -ENOMEM;
		*m = (struct member){ .fd = fd, .event = *event };
		*at = m; /* at the end, so that older ones are reported first */
		s->count++;
	}
	note_change(s);
	return 0;
}

/* From here on nobody holds mu. */

void rs_epoll_forget(int fd)
{
	int state = lock();

	for (struct set *s = sets; s; s = s->next) {
		struct member **at = find(s, fd);

		if (*at && s->process == rs_generation) {
			take_out(s, at);
			note_change(s);
		}
	}
	unlock(state);
}

bool rs_epoll_close(int epfd)
{
	struct set **at = &sets, *s;
	int state = lock();

	while (*at && (*at)->fd != epfd)
		at = &(*at)->next;
	s = *at;
	if (s) {
		*at = s->next;
		while (s->members)
			take_out(s, &s->members);
		s->closed = true;
		if (s->process == rs_generation) {
			note_change(s);
			drop(s);
		} else {
			free_set(s);
		}
	}
	unlock(state);
	return s != NULL;
}

VB_RETURNS_COUNT(int, repoll_create, (int flags), (flags))
{
	struct set *s = calloc(1, sizeof(*s));
	int state;

	if (!s)
		return -1;
	s->references = 1;
	s->process = rs_generation;
	s->fd = epoll_create1(flags);
	if (s->fd < 0) {
		free(s);
		return -1;
	}
	s->changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->changed < 0) {
		int error = errno;

		close(s->fd);
		free(s);
		errno = error;
		return -1;
	}
	state = lock();
	s->next = sets;
	sets = s;
	unlock(state);
	return s->fd;
}

VB_RETURNS_COUNT(int, repoll_ctl, (int epfd, int op, int fd, struct epoll_event *event),
	(epfd, op, fd, event))
{
	struct rs_socket *socket = rs_index_get(fd);
	int error = 0, state = lock();
	struct set *s;

	s = find_set(epfd);
	if (!s)
		error = -EINVAL;
	else if (!socket)
		error = epoll_ctl(epfd, op, fd, event) ? -errno : 0;
	else if (atomic_load(&socket->closing))
		error = -EBADF;
	else
		error = change(s, op, fd, event);
	unlock(state);
	if (socket)
		rs_put(socket);
	errno = -error;
	return error ? -1 : 0;
}

static int milliseconds_until(int64_t deadline)
{
	int64_t left = (deadline - rs_now_us() + 999) / 1000;

	return deadline == RS_FOREVER ? -1 : left < 0 ? 0 : (int)left;
}

/* Looks once. Returns the number of events, or a negative errno; *again: there may be others. */
static int wait_once(struct waiter *w, struct epoll_event *events, int most, int timeout,
		     bool *again)
{
	int n, found, state = lock();

	n = list(w);
	unlock(state);
	if (n)
		return n;
	found = rpoll(w->fds, w->count, timeout);
	if (found <= 0) {
		*again = false;
		return found < 0 ? -errno : 0;
	}
	state = lock();
	n = report(w, events, most);
	unlock(state);
	if (w->fds[SET].revents && n < most) {
		int more = epoll_wait(w->set->fd, events + n, most - n, 0);

		if (more < 0 && !n)
			return -errno; /* the application has closed the descriptor otherwise */
		n += more > 0 ? more : 0;
	}
	return n;
}

/* Ends the wait of a thread, which may be cancelled. */
static void end_wait(void *waiter)
{
	struct waiter *w = waiter;
	int state = lock();

	catch_up(w);
	drop(w->set);
	unlock(state);
	free(w->fds);
}

static bool begin_wait(struct waiter *w, int epfd)
{
	int state = lock();

	w->set = find_set(epfd);
	if (w->set) {
		w->set->references++;
		w->generation = w->set->generation;
	}
	unlock(state);
	return w->set;
}

VB_RETURNS_COUNT(int, repoll_wait,
	(int epfd, struct epoll_event *events, int maxevents, int timeout),
	(epfd, events, maxevents, timeout))
{
	int64_t deadline = timeout < 0 ? RS_FOREVER : rs_now_us() + (int64_t)timeout * 1000;
	struct waiter w = { 0 };
	volatile int n = 0;

	if (maxevents < 1 || !events || !begin_wait(&w, epfd)) {
		errno = EINVAL;
		return -1;
	}
	pthread_cleanup_push(end_wait, &w);
	for (bool again = true; again && !n;)
		n = wait_once(&w, events, maxevents, milliseconds_until(deadline), &again);
	pthread_cleanup_pop(1);
	if (n < 0)
		errno = -n;
	return n < 0 ? -1 : n;
}
