/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams carry bytes in order, in any pieces, both ways at once; halves are shut one by one. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "rsocket.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>

static const size_t sizes[] = { 1, 63, 64, 65, 4096, 65536, 131072, 131073, 300001 };

static size_t total(void)
{
	size_t sum = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		sum += sizes[i];
	return sum;
}

/* Sends pieces of all sizes, by rsend and by rwritev in turns. */
static void *send_all(void *end)
{
	int s = (int)(intptr_t)end;
	uint8_t *data = malloc(total());
	size_t at = 0;

	for (size_t i = 0; i < total(); i++)
		data[i] = rs_byte(i);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t third = sizes[i] / 3;
		struct iovec iov[3] = { { data + at, third }, { data + at, 0 }, { data + at + third, sizes[i] - third } };

		if (i % 2)
			CHECK(rwritev(s, iov, 3) == (ssize_t)sizes[i]);
		else
			CHECK(rsend(s, data + at, sizes[i], 0) == (ssize_t)sizes[i]);
		at += sizes[i];
	}
	free(data);
	return NULL;
}

/* Receives as much, in pieces of other sizes. */
static void *receive_all(void *end)
{
	int s = (int)(intptr_t)end;
	uint8_t a[1000], b[3000];
	struct iovec iov[2] = { { a, sizeof(a) }, { b, sizeof(b) } };
	size_t at = 0;

	while (at < total()) {
		ssize_t n = rreadv(s, iov, 2);

		CHECK(n > 0);
		for (ssize_t i = 0; i < n; i++)
			CHECK((i < 1000 ? a[i] : b[i - 1000]) == rs_byte(at + (size_t)i));
		at += (size_t)n;
	}
	CHECK(at == total());
	return NULL;
}

static void both_ways(int ends[2])
{
	pthread_t threads[4];

	for (int i = 0; i < 2; i++) {
		CHECK(pthread_create(&threads[2 * i], NULL, send_all, (void *)(intptr_t)ends[i]) == 0);
		CHECK(pthread_create(&threads[2 * i + 1], NULL, receive_all, (void *)(intptr_t)ends[i]) == 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void flags(int ends[2])
{
	char buf[16] = "";

	CHECK_FAILS(rrecv(ends[1], buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	CHECK(rsend(ends[0], "hello", 5, 0) == 5);
	CHECK(rrecv(ends[1], buf, 2, MSG_PEEK) == 2 && !memcmp(buf, "he", 2));
	CHECK(rrecv(ends[1], buf, sizeof(buf), MSG_PEEK) == 5 && !memcmp(buf, "hello", 5));
	CHECK(rsend(ends[0], " world", 6, 0) == 6);
	memset(buf, 0, sizeof(buf));
	CHECK(rrecv(ends[1], buf, 11, MSG_WAITALL) == 11 && !memcmp(buf, "hello world", 11));
	CHECK(rrecv(ends[1], buf, 0, 0) == 0);
	CHECK_FAILS(rrecv(ends[1], buf, 1, MSG_OOB), EINVAL);
	CHECK_FAILS(rsend(ends[0], buf, 1, MSG_OOB), EOPNOTSUPP);
}

/* A sender whose peer does not read fills the room that there is, and no more. */
static void full(int ends[2])
{
	static uint8_t data[1 << 20], back[1 << 20];
	size_t sent = 0, received = 0;
	ssize_t n;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = rs_byte(i);
	while ((n = rsend(ends[0], data + sent, sizeof(data) - sent, MSG_DONTWAIT)) > 0)
		sent += (size_t)n;
	CHECK(n == -1 && errno == EAGAIN && sent > 65536 && sent < sizeof(data));
	while (received < sent) {
		n = rrecv(ends[1], back + received, sizeof(back) - received, 0);
		CHECK(n > 0);
		received += (size_t)n;
	}
	CHECK(received == sent && !memcmp(data, back, sent));
	struct pollfd fd = { .fd = ends[0], .events = POLLOUT };

	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents == POLLOUT);
}

static void halves(int ends[2])
{
	char buf[8];
	struct pollfd fd = { .fd = ends[1], .events = POLLIN | POLLRDHUP };

	CHECK(rsend(ends[0], "last", 4, 0) == 4);
	CHECK(rshutdown(ends[0], SHUT_WR) == 0);
	CHECK_FAILS(rsend(ends[0], "x", 1, 0), EPIPE);
	CHECK(rrecv(ends[1], buf, sizeof(buf), MSG_WAITALL) == 4 && !memcmp(buf, "last", 4));
	CHECK(rrecv(ends[1], buf, sizeof(buf), 0) == 0);
	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents == (POLLIN | POLLRDHUP));
	CHECK(rsend(ends[1], "back", 4, 0) == 4); /* the other half is open */
	CHECK(rrecv(ends[0], buf, sizeof(buf), 0) == 4 && !memcmp(buf, "back", 4));
	CHECK(rshutdown(ends[1], SHUT_WR) == 0);
	CHECK(rrecv(ends[0], buf, sizeof(buf), 0) == 0);
	fd.events = POLLIN | POLLOUT;
	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents & POLLHUP);
	CHECK_FAILS(rshutdown(ends[0], 17), EINVAL);
}

/* Bytes sent before a close are not lost by it. */
static void close_keeps_data(const char *arg)
{
	static uint8_t data[100000], back[100000];
	int ends[2];

	rs_pair(arg, ends);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = rs_byte(i);
	CHECK(rsend(ends[0], data, sizeof(data), 0) == sizeof(data));
	CHECK(rclose(ends[0]) == 0);
	struct pollfd fd = { .fd = ends[1], .events = POLLIN };

	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents == POLLIN); /* no POLLHUP before the end */
	CHECK(rrecv(ends[1], back, sizeof(back), MSG_WAITALL) == sizeof(back) && !memcmp(data, back, sizeof(data)));
	CHECK(rrecv(ends[1], back, 1, 0) == 0);
	CHECK_FAILS(rsend(ends[1], data, 1, 0), ECONNRESET);
	CHECK(rclose(ends[1]) == 0);
}

int main(int argc, char **argv)
{
	int ends[2];

	(void)argc;
	rs_pair(argv[1], ends);
	both_ways(ends);
	flags(ends);
	full(ends);
	halves(ends);
	rs_close_pair(ends);
	close_keeps_data(argv[1]);
	return 0;
}
