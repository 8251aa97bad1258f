/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel cannot watch an rsocket. The rsockets of an epoll set are kept here. A wait passes
 * them to rpoll together with the descriptor of the set, which is readable when the kernel has
 * events for the others.
 *
 * Deviation: EPOLLET is treated as level-triggered. A program that needs every edge stays correct,
 * and sees further events.
 */
#include "epoll.h"

#include "pass.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct member {
	struct member *next;
	int set; /* the epoll descriptor */
	int fd;
	bool off; /* EPOLLONESHOT: until EPOLL_CTL_MOD */
	struct epoll_event event;
};

static struct member *members; /* guarded by mu */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct member **find(int set, int fd)
{
	struct member **p = &members;

	while (*p && ((*p)->set != set || (*p)->fd != fd))
		p = &(*p)->next;
	return p;
}

void epoll_forget(int fd)
{
	pthread_mutex_lock(&mu);
	for (struct member **p = &members; *p;) {
		struct member *m = *p;

		if (m->set == fd || m->fd == fd) {
			*p = m->next;
			free(m);
		} else {
			p = &m->next;
		}
	}
	pthread_mutex_unlock(&mu);
}

/* Returns 0 or a positive errno. The caller holds mu. */
static int change(int set, int operation, int fd, const struct epoll_event *event)
{
	struct member **p = find(set, fd), *m = *p;

	if (operation == EPOLL_CTL_ADD) {
		if (m)
			return EEXIST;
		m = calloc(1, sizeof(*m));
		if (!m)
			return ENOMEM;
		*m = (struct member){ members, set, fd, false, *event };
		members = m;
		return 0;
	}
	if (!m)
		return ENOENT;
	if (operation == EPOLL_CTL_DEL) {
		*p = m->next;
		free(m);
	} else {
		m->event = *event;
		m->off = false;
	}
	return 0;
}

static int change_set(int set, int operation, int fd, const struct epoll_event *event)
{
	pthread_mutex_lock(&mu);
	int error = change(set, operation, fd, event);

	pthread_mutex_unlock(&mu);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

EXPORT int epoll_ctl(int epfd, int operation, int fd, struct epoll_event *event)
{
	return PASS(fd, change_set(epfd, operation, fd, event),
		    real()->epoll_ctl(epfd, operation, fd, event));
}

/* Returns the rsockets of a set for poll. The caller frees *fds. -1: ENOMEM. */
static int list(int set, struct pollfd **fds)
{
	int count = 0, i = 1;

	pthread_mutex_lock(&mu);
	for (struct member *m = members; m; m = m->next)
		count += m->set == set && !m->off;
	*fds = count ? calloc((size_t)count + 1, sizeof(**fds)) : NULL;
	if (count && !*fds)
		count = -1;
	for (struct member *m = members; m && *fds; m = m->next) {
		if (m->set == set && !m->off) /* the same bits as those of poll: epoll_ctl(2) */
			(*fds)[i++] =
				(struct pollfd){ .fd = m->fd,
						 .events = (short)(m->event.events & 0x7fff) };
	}
	pthread_mutex_unlock(&mu);
	return count;
}

/* Writes the events that poll has found for the rsockets of a set. */
static int report(int set, const struct pollfd *fds, int count, struct epoll_event *events,
		  int most)
{
	int n = 0;

	pthread_mutex_lock(&mu);
	for (int i = 1; i <= count && n < most; i++) {
		struct member *m = fds[i].revents ? *find(set, fds[i].fd) : NULL;

		if (!m)
			continue;
		m->off = m->event.events & EPOLLONESHOT;
		events[n++] = (struct epoll_event){ .events = (uint32_t)fds[i].revents,
						    .data = m->event.data };
	}
	pthread_mutex_unlock(&mu);
	return n;
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int most, int timeout,
		       const sigset_t *mask)
{
	struct pollfd *fds;
	int count = list(epfd, &fds);

	if (!count)
		return real()->epoll_pwait(epfd, events, most, timeout, mask);
	if (count < 0 || most < 1) {
		errno = count < 0 ? ENOMEM : EINVAL;
		free(fds);
		return -1;
	}
	fds[0] = (struct pollfd){ .fd = epfd, .events = POLLIN };
	struct timespec limit = { timeout / 1000, timeout % 1000 * 1000000L };
	int found = ppoll(fds, (nfds_t)count + 1, timeout < 0 ? NULL : &limit, mask);

	if (found > 0) {
		found = report(epfd, fds, count, events, most);
		if (fds[0].revents && found < most) {
			int more = real()->epoll_wait(epfd, events + found, most - found, 0);

			found += more > 0 ? more : 0;
		}
	}
	free(fds);
	return found;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	return epoll_pwait(epfd, events, most, timeout, NULL);
}
