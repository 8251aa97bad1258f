/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets: the first datagrams go by UDP, the others by UD; the receiver sees no
 * difference.
 */
#include "rsocket.h"

#include <poll.h>

enum { LARGEST = 2048 - 16 }; /* with the header over UDP */

static int bound(const char *arg, struct sockaddr_in *addr)
{
	socklen_t length = sizeof(*addr);
	int s = rsocket(AF_INET, SOCK_DGRAM, 0);

	CHECK(s >= 0);
	*addr = rs_address(arg, 0);
	CHECK(rbind(s, (struct sockaddr *)addr, sizeof(*addr)) == 0);
	CHECK(rgetsockname(s, (struct sockaddr *)addr, &length) == 0 && addr->sin_port);
	return s;
}

static void one(int from, const struct sockaddr_in *from_addr, int to, const struct sockaddr_in *to_addr, size_t size)
{
	uint8_t data[LARGEST], back[LARGEST + 1];
	struct sockaddr_in source;
	socklen_t length = sizeof(source);

	for (size_t i = 0; i < size; i++)
		data[i] = rs_byte(i + size);
	CHECK(rsendto(from, data, size, 0, (struct sockaddr *)to_addr, sizeof(*to_addr)) == (ssize_t)size);
	CHECK(rrecvfrom(to, back, sizeof(back), 0, (struct sockaddr *)&source, &length) == (ssize_t)size);
	CHECK(!memcmp(data, back, size));
	CHECK(length == sizeof(source) && source.sin_port == from_addr->sin_port && source.sin_addr.s_addr == from_addr->sin_addr.s_addr);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addrs[3];
	int s[3] = { bound(argv[1], &addrs[0]), bound(argv[1], &addrs[1]), bound(argv[1], &addrs[2]) };
	uint8_t buf[LARGEST + 1] = { 0 };
	struct pollfd fd = { .fd = s[1], .events = POLLIN };

	(void)argc;
	CHECK_FAILS(rrecv(s[0], buf, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_FAILS(rsend(s[0], buf, 1, 0), EDESTADDRREQ);
	CHECK_FAILS(rlisten(s[0], 1), EOPNOTSUPP);
	CHECK_FAILS(rsendto(s[0], buf, sizeof(buf), 0, (struct sockaddr *)&addrs[1], sizeof(addrs[1])), EMSGSIZE);
	for (int i = 0; i < 300; i++) {
		one(s[0], &addrs[0], s[1], &addrs[1], (size_t)(i * 7) % (LARGEST + 1));
		one(s[1], &addrs[1], s[0], &addrs[0], (size_t)(i * 13) % (LARGEST + 1));
	}
	one(s[0], &addrs[0], s[1], &addrs[1], LARGEST);

	/* Each receive takes one, whole or cut off. */
	struct iovec iov = { buf, 2 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	CHECK(rsendto(s[0], "abcd", 4, 0, (struct sockaddr *)&addrs[1], sizeof(addrs[1])) == 4);
	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents == POLLIN);
	CHECK(rrecv(s[1], buf, 4, MSG_PEEK) == 4);
	CHECK(rrecvmsg(s[1], &msg, 0) == 2 && msg.msg_flags & MSG_TRUNC);
	CHECK(rpoll(&fd, 1, 0) == 0);

	/* A connected socket hears its peer alone. */
	CHECK(rconnect(s[1], (struct sockaddr *)&addrs[0], sizeof(addrs[0])) == 0);
	CHECK(rsendto(s[2], "no", 2, 0, (struct sockaddr *)&addrs[1], sizeof(addrs[1])) == 2);
	CHECK(rsend(s[1], "ask", 3, 0) == 3);
	CHECK(rrecv(s[0], buf, sizeof(buf), 0) == 3);
	CHECK(rsendto(s[0], "yes", 3, 0, (struct sockaddr *)&addrs[1], sizeof(addrs[1])) == 3);
	CHECK(rrecv(s[1], buf, sizeof(buf), 0) == 3 && !memcmp(buf, "yes", 3));
	for (int i = 0; i < 3; i++)
		CHECK(rclose(s[i]) == 0);
	return 0;
}
