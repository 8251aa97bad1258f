/* rselect, by rpoll. */
#include "socket.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Which events put a descriptor into which set: poll(2), NOTES of select(2). */
#define READ_EVENTS (POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define WRITE_EVENTS (POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)
#define EXCEPT_EVENTS POLLPRI

static bool has(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t to_poll(int nfds, const fd_set *in, const fd_set *out, const fd_set *except, struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = (short)((has(in, fd) ? POLLIN | POLLRDNORM : 0) | (has(out, fd) ? POLLOUT | POLLWRNORM : 0) |
				       (has(except, fd) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return count;
}

/* Leaves in the set what has one of the events, and counts it. */
static int keep(fd_set *set, const struct pollfd *fds, nfds_t count, int events)
{
	int kept = 0;

	for (nfds_t i = 0; i < count; i++) {
		if (!has(set, fds[i].fd))
			continue;
		if (fds[i].revents & events)
			kept++;
		else
			FD_CLR(fds[i].fd, set);
	}
	return kept;
}

static int milliseconds(const struct timeval *timeout)
{
	if (!timeout)
		return -1;
	long long ms = (long long)timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];

	if (nfds < 0 || nfds > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
		errno = EINVAL;
		return -1;
	}
	nfds_t count = to_poll(nfds, readfds, writefds, exceptfds, fds);

	if (rpoll(fds, count, milliseconds(timeout)) < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	}
	return keep(readfds, fds, count, READ_EVENTS) + keep(writefds, fds, count, WRITE_EVENTS) + keep(exceptfds, fds, count, EXCEPT_EVENTS);
}
