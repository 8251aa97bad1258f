/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram socket whose peer is a program in Go: see godatagram_test.go. With a port it sends
 * datagrams and receives each again. Without one it prints its port, and sends back the datagrams
 * that it receives until an empty one.
 */
#include "rsocket.h"

#include <stdlib.h>

enum { LARGEST = 2048 - 16, ROUNDS = 300 };

static void exchange(const char *addr, uint16_t port)
{
	struct sockaddr_in in = rs_address(addr, port), from;
	uint8_t data[LARGEST], back[LARGEST];
	int s = rsocket(AF_INET, SOCK_DGRAM, 0);

	CHECK(s >= 0);
	for (size_t round = 0; round < ROUNDS; round++) {
		size_t size = round * 7 % LARGEST + 1;
		socklen_t length = sizeof(from);

		for (size_t i = 0; i < size; i++)
			data[i] = rs_byte(i + size);
		CHECK(rsendto(s, data, size, 0, (struct sockaddr *)&in, sizeof(in)) == (ssize_t)size);
		CHECK(rrecvfrom(s, back, sizeof(back), 0, (struct sockaddr *)&from, &length) == (ssize_t)size);
		CHECK(!memcmp(data, back, size));
		CHECK(from.sin_port == in.sin_port && from.sin_addr.s_addr == in.sin_addr.s_addr);
	}
	CHECK(rclose(s) == 0);
}

static void serve(const char *addr)
{
	struct sockaddr_in in = rs_address(addr, 0), from;
	socklen_t length = sizeof(in);
	uint8_t buf[LARGEST];
	int s = rsocket(AF_INET, SOCK_DGRAM, 0);
	ssize_t n;

	CHECK(s >= 0);
	CHECK(rbind(s, (struct sockaddr *)&in, sizeof(in)) == 0);
	CHECK(rgetsockname(s, (struct sockaddr *)&in, &length) == 0);
	printf("%d\n", ntohs(in.sin_port));
	fflush(stdout);
	do {
		length = sizeof(from);
		n = rrecvfrom(s, buf, sizeof(buf), 0, (struct sockaddr *)&from, &length);
		CHECK(n >= 0);
		CHECK(rsendto(s, buf, (size_t)n, 0, (struct sockaddr *)&from, length) == n);
	} while (n > 0);
	CHECK(rclose(s) == 0);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		exchange(argv[1], (uint16_t)atoi(argv[2]));
	else
		serve(argv[1]);
	return 0;
}
