/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a stream whose other end is a program in Go: see gosocket_test.go. With a port it
 * connects, sends bytes and receives them again. Without one it listens, prints its port and sends
 * back the bytes that it receives.
 */
#include "rsocket.h"

#include <stdlib.h>

#define BYTES 1000000

static void *send_all(void *arg)
{
	int s = (int)(intptr_t)arg;
	uint8_t buf[70000];

	for (size_t at = 0, n; at < BYTES; at += n) {
		n = 1 + at % sizeof(buf);
		if (n > BYTES - at)
			n = BYTES - at;
		for (size_t i = 0; i < n; i++)
			buf[i] = rs_byte(at + i);
		CHECK(rsend(s, buf, n, 0) == (ssize_t)n);
	}
	CHECK(rshutdown(s, SHUT_WR) == 0);
	return NULL;
}

static void connect_to(const char *addr, uint16_t port)
{
	struct sockaddr_in in = rs_address(addr, port);
	int s = rsocket(AF_INET, SOCK_STREAM, 0);
	uint8_t buf[50000];
	pthread_t sender;
	size_t at = 0;
	ssize_t n;

	CHECK(s >= 0);
	CHECK(rconnect(s, (struct sockaddr *)&in, sizeof(in)) == 0);
	CHECK(pthread_create(&sender, NULL, send_all, (void *)(intptr_t)s) == 0);
	while ((n = rrecv(s, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			CHECK(buf[i] == rs_byte(at + (size_t)i));
		at += (size_t)n;
	}
	CHECK(n == 0 && at == BYTES);
	CHECK(pthread_join(sender, NULL) == 0);
	CHECK(rclose(s) == 0);
}

static void serve(const char *addr)
{
	struct sockaddr_in in;
	int listener = rs_listener(addr, &in, 1), s;
	uint8_t buf[30000];
	ssize_t n;

	printf("%d\n", ntohs(in.sin_port));
	fflush(stdout);
	s = raccept(listener, NULL, NULL);
	CHECK(s >= 0);
	while ((n = rrecv(s, buf, sizeof(buf), 0)) > 0)
		CHECK(rsend(s, buf, (size_t)n, 0) == n);
	CHECK(n == 0);
	CHECK(rclose(s) == 0);
	CHECK(rclose(listener) == 0);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		connect_to(argv[1], (uint16_t)atoi(argv[2]));
	else
		serve(argv[1]);
	return 0;
}
