/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect: rsockets beside pipes, several threads on one rsocket. */
#include "rsocket.h"

#include <poll.h>
#include <unistd.h>

static void beside_pipes(int ends[2])
{
	int pipes[2];
	char byte;

	CHECK(pipe(pipes) == 0);
	struct pollfd fds[4] = { { ends[1], POLLIN, 0 }, { pipes[0], POLLIN, 0 }, { -1, POLLIN, 7 }, { ends[0], POLLOUT, 0 } };

	CHECK(rpoll(fds, 3, 0) == 0 && !fds[2].revents);
	CHECK(rpoll(fds, 3, 30) == 0);
	CHECK(rpoll(fds, 4, -1) == 1 && fds[3].revents == POLLOUT);
	CHECK(write(pipes[1], "p", 1) == 1);
	CHECK(rpoll(fds, 3, -1) == 1 && !fds[0].revents && fds[1].revents == POLLIN);
	CHECK(rsend(ends[0], "r", 1, 0) == 1);
	fds[1].fd = -1;
	CHECK(rpoll(fds, 3, 30000) == 1 && fds[0].revents == POLLIN);
	fds[1].fd = pipes[0];
	CHECK(rpoll(fds, 3, -1) == 2);

	fd_set in, out;
	struct timeval limit = { 5, 0 };
	int most = (ends[0] > ends[1] ? ends[0] : ends[1]) + 1;

	if (most <= pipes[0])
		most = pipes[0] + 1;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(ends[1], &in);
	FD_SET(ends[0], &in);
	FD_SET(pipes[0], &in);
	FD_SET(ends[0], &out);
	CHECK(rselect(most, &in, &out, NULL, &limit) == 3);
	CHECK(FD_ISSET(ends[1], &in) && FD_ISSET(pipes[0], &in) && !FD_ISSET(ends[0], &in) && FD_ISSET(ends[0], &out));
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'r');
	close(pipes[0]);
	close(pipes[1]);
	fds[0].fd = pipes[0];
	CHECK(rpoll(fds, 1, -1) == 1 && fds[0].revents == POLLNVAL);
	FD_ZERO(&in);
	FD_SET(pipes[0], &in);
	CHECK_FAILS(rselect(most, &in, NULL, NULL, NULL), EBADF);
	CHECK_FAILS(rselect(-1, NULL, NULL, NULL, NULL), EINVAL);
}

/*
 * One thread sleeps in rpoll for room to send, another one in rrecv: whichever
 * takes the completion that the first waits for, it wakes. Without that the
 * first would go on when it looks by itself, wake_up_interval later.
 */
enum { ROUNDS = 2000, BYTES = 3000 };

static void *echo(void *end)
{
	static char buf[BYTES];
	int s = (int)(intptr_t)end;
	ssize_t n;

	while ((n = rrecv(s, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t sent = 0, k; sent < n; sent += k) {
			k = rsend(s, buf + sent, (size_t)(n - sent), 0);
			CHECK(k > 0);
		}
	}
	CHECK(n == 0);
	return NULL;
}

static void *send_polling(void *end)
{
	static char buf[BYTES];
	struct pollfd fd = { .fd = (int)(intptr_t)end, .events = POLLOUT };

	for (int i = 0; i < ROUNDS; i++) {
		for (ssize_t sent = 0; sent < BYTES;) {
			ssize_t n = rsend(fd.fd, buf + sent, (size_t)(BYTES - sent), MSG_DONTWAIT);

			if (n < 0) {
				CHECK(errno == EAGAIN);
				CHECK(rpoll(&fd, 1, 20000) == 1 && fd.revents == POLLOUT);
				continue;
			}
			sent += n;
		}
	}
	return NULL;
}

static void several_threads(int ends[2])
{
	static char buf[BYTES];
	pthread_t echoing, sending;
	size_t received = 0;

	CHECK(pthread_create(&echoing, NULL, echo, (void *)(intptr_t)ends[1]) == 0);
	CHECK(pthread_create(&sending, NULL, send_polling, (void *)(intptr_t)ends[0]) == 0);
	while (received < (size_t)ROUNDS * BYTES) {
		ssize_t n = rrecv(ends[0], buf, sizeof(buf), 0);

		CHECK(n > 0);
		received += (size_t)n;
	}
	CHECK(pthread_join(sending, NULL) == 0);
	CHECK(rshutdown(ends[0], SHUT_WR) == 0);
	CHECK(pthread_join(echoing, NULL) == 0);
}

int main(int argc, char **argv)
{
	int ends[2];

	(void)argc;
	rs_pair(argv[1], ends);
	beside_pipes(ends);
	several_threads(ends);
	rs_close_pair(ends);
	return 0;
}
