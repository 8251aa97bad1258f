/* SPDX-License-Identifier: BSD-2-Clause */
/* poll, select and their variants. */
#include "fdsets.h"
#include "pass.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/select.h>
#include <time.h>

/* Polls fds with rsockets among them, by their numbers. */
static int poll_numbers(struct pollfd *fds, nfds_t count, int timeout)
{
	struct pollfd *numbers = calloc(count, sizeof(*numbers));
	struct entry **entries = calloc(count, sizeof(*entries));
	int found = -1;

	if (numbers && entries) {
		for (nfds_t i = 0; i < count; i++) {
			int number = -1;

			entries[i] = table_get(fds[i].fd);
			if (entries[i])
				number = atomic_load(&entries[i]->number);
			numbers[i] = (struct pollfd){ .fd = number >= 0 ? number : fds[i].fd,
						      .events = fds[i].events };
		}
		found = rpoll(numbers, count, timeout);
		for (nfds_t i = 0; i < count; i++) {
			fds[i].revents = numbers[i].revents;
			if (entries[i])
				entry_put(entries[i]);
		}
	} else {
		errno = ENOMEM;
	}
	free(numbers);
	free(entries);
	return found;
}

static bool any_rsocket(struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++) {
		if (PASS(fds[i].fd, true, false))
			return true;
	}
	return false;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	return any_rsocket(fds, count) ? poll_numbers(fds, count, timeout)
				       : real()->poll(fds, count, timeout);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (count > room / sizeof(*fds))
		abort();
	return poll(fds, count, timeout);
}

static int milliseconds(const struct timespec *timeout)
{
	if (!timeout)
		return -1;
	long long ms = (long long)timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/*
 * The mask is set before the call, not in one step with it. A signal that comes just before does
 * not end the call, but is handled.
 */
EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	sigset_t before;

	if (!any_rsocket(fds, count))
		return real()->ppoll(fds, count, timeout, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &before);
	int found = poll_numbers(fds, count, milliseconds(timeout));

	if (mask)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return found;
}

static bool any_rsocket_in(int nfds, const fd_set *set)
{
	for (int fd = 0; set && fd < nfds && fd < FD_SETSIZE; fd++) {
		if (FD_ISSET(fd, set) && PASS(fd, true, false))
			return true;
	}
	return false;
}

EXPORT int select(int nfds, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	if (any_rsocket_in(nfds, in) || any_rsocket_in(nfds, out) || any_rsocket_in(nfds, except))
		return select_by_poll(poll_numbers, nfds, in, out, except, timeout);
	return real()->select(nfds, in, out, except, timeout);
}
