/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting, accepting, naming; without waiting, too. */
#include "rsocket.h"

#include <poll.h>

static int error_of(int s)
{
	int error = -1;
	socklen_t length = sizeof(error);

	CHECK(rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && length == sizeof(error));
	return error;
}

static void refused(const char *arg)
{
	struct sockaddr_in addr = rs_address(arg, 9);
	struct pollfd fd = { .events = POLLOUT };
	int s = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_FAILS(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)), ECONNREFUSED);
	CHECK(rclose(s) == 0);
	s = fd.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_FAILS(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK(rpoll(&fd, 1, 30000) == 1 && fd.revents & POLLERR);
	CHECK(error_of(s) == ECONNREFUSED);
	CHECK(error_of(s) == 0); /* it is told once */
	CHECK(rclose(s) == 0);
}

static void nonblocking(const char *arg)
{
	struct sockaddr_in addr, peer;
	socklen_t length = sizeof(peer);
	int listener = rs_listener(arg, &addr, 4), accepted;
	struct pollfd fds[2] = { { .events = POLLOUT }, { .fd = listener, .events = POLLIN } };
	int s = fds[0].fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(rfcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	CHECK_FAILS(raccept(listener, NULL, NULL), EAGAIN);
	CHECK(rpoll(&fds[1], 1, 0) == 0);
	CHECK(rfcntl(s, F_SETFL, O_NONBLOCK) == 0 && rfcntl(s, F_GETFL) & O_NONBLOCK);
	CHECK_FAILS(rgetpeername(s, (struct sockaddr *)&peer, &length), ENOTCONN);
	CHECK_FAILS(rsend(s, "x", 1, 0), ENOTCONN);
	CHECK_FAILS(rrecv(s, &peer, 1, 0), ENOTCONN);
	CHECK_FAILS(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK(rpoll(&fds[0], 1, 30000) == 1 && fds[0].revents == POLLOUT);
	CHECK(error_of(s) == 0);
	CHECK(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0); /* as connect(2) after EINPROGRESS */
	CHECK_FAILS(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)), EISCONN);
	CHECK(rpoll(&fds[1], 1, 30000) == 1 && fds[1].revents == POLLIN);
	memset(&peer, 0, sizeof(peer));
	length = sizeof(peer);
	accepted = raccept(listener, (struct sockaddr *)&peer, &length);
	CHECK(accepted >= 0 && length == sizeof(peer) && peer.sin_family == AF_INET && peer.sin_addr.s_addr == addr.sin_addr.s_addr);
	length = sizeof(peer);
	CHECK(rgetpeername(s, (struct sockaddr *)&peer, &length) == 0 && peer.sin_port == addr.sin_port);
	rs_close_pair((int[2]){ s, accepted });
	CHECK(rclose(listener) == 0);
}

/* More connect than the backlog has room for: the rest waits, and none is lost. */
enum { MANY = 6 };

static void *connect_one(void *addr)
{
	int s = rsocket(AF_INET, SOCK_STREAM, 0);
	char byte;

	CHECK(rconnect(s, addr, sizeof(struct sockaddr_in)) == 0);
	CHECK(rrecv(s, &byte, 1, 0) == 1 && byte == 'y');
	CHECK(rclose(s) == 0);
	return NULL;
}

static void many(const char *arg)
{
	struct sockaddr_in addr;
	int listener = rs_listener(arg, &addr, 2), ends[MANY];
	pthread_t threads[MANY];

	for (int i = 0; i < MANY; i++)
		CHECK(pthread_create(&threads[i], NULL, connect_one, &addr) == 0);
	for (int i = 0; i < MANY; i++) {
		ends[i] = raccept(listener, NULL, NULL);
		CHECK(ends[i] >= 0);
		CHECK(rsend(ends[i], "y", 1, 0) == 1);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		CHECK(rclose(ends[i]) == 0);
	}
	CHECK(rclose(listener) == 0);
}

/* A listener is closed under one that accepts, and with a connection that nobody accepted. */
static void *accept_in_vain(void *listener)
{
	CHECK_FAILS(raccept((int)(intptr_t)listener, NULL, NULL), EINVAL);
	return NULL;
}

static void closed(const char *arg)
{
	struct sockaddr_in addr;
	int listener = rs_listener(arg, &addr, 2);
	char byte;
	pthread_t thread;
	int s = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(rclose(listener) == 0);
	CHECK(rrecv(s, &byte, 1, 0) == 0);
	CHECK(rclose(s) == 0);
	listener = rs_listener(arg, &addr, 2);
	CHECK(pthread_create(&thread, NULL, accept_in_vain, (void *)(intptr_t)listener) == 0);
	CHECK(rshutdown(listener, SHUT_RDWR) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(rclose(listener) == 0);
}

int main(int argc, char **argv)
{
	(void)argc;
	refused(argv[1]);
	nonblocking(argv[1]);
	many(argv[1]);
	closed(argv[1]);
	return 0;
}
