/* SPDX-License-Identifier: BSD-2-Clause */
/* select(2) on top of a poll function: poll or rpoll. */
#ifndef VERBENA_FDSETS_H
#define VERBENA_FDSETS_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/select.h>

/* The events for which a descriptor stays in a set: poll(2), NOTES of select(2). */
#define SELECT_READ (POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define SELECT_WRITE (POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)
#define SELECT_EXCEPT POLLPRI

static inline bool select_has(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

static inline nfds_t select_to_poll(int nfds, const fd_set *in, const fd_set *out,
				    const fd_set *except, struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = (short)((select_has(in, fd) ? POLLIN | POLLRDNORM : 0) |
				       (select_has(out, fd) ? POLLOUT | POLLWRNORM : 0) |
				       (select_has(except, fd) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return count;
}

/* Keeps in the set the descriptors that have one of the events. Returns their number. */
static inline int select_keep(fd_set *set, const struct pollfd *fds, nfds_t count, int events)
{
	int kept = 0;

	for (nfds_t i = 0; i < count; i++) {
		if (!select_has(set, fds[i].fd))
			continue;
		if (fds[i].revents & events)
			kept++;
		else
			FD_CLR(fds[i].fd, set);
	}
	return kept;
}

static inline int select_milliseconds(const struct timeval *timeout)
{
	if (!timeout)
		return -1;
	long long ms = (long long)timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

typedef int (*poll_function)(struct pollfd *fds, nfds_t nfds, int timeout);

static inline int select_by_poll(poll_function ask, int nfds, fd_set *in, fd_set *out,
				 fd_set *except, const struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];

	if (nfds < 0 || nfds > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
		errno = EINVAL;
		return -1;
	}
	nfds_t count = select_to_poll(nfds, in, out, except, fds);

	if (ask(fds, count, select_milliseconds(timeout)) < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	}
	return select_keep(in, fds, count, SELECT_READ) +
	       select_keep(out, fds, count, SELECT_WRITE) +
	       select_keep(except, fds, count, SELECT_EXCEPT);
}

#endif
