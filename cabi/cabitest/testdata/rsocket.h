/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a stream in one process, for the test programs of rsockets. Each program takes the
 * address to use as its argument.
 */
#ifndef TEST_RSOCKET_H
#define TEST_RSOCKET_H

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/epoll.h>

/* Only rdma-core after 44 has them. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int most, int timeout);

static inline struct sockaddr_in rs_address(const char *arg, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK(inet_pton(AF_INET, arg, &in.sin_addr) == 1);
	return in;
}

/* A listener at a port of its own, which addr is set to. */
static inline int rs_listener(const char *arg, struct sockaddr_in *addr, int backlog)
{
	socklen_t length = sizeof(*addr);
	int s = rsocket(AF_INET, SOCK_STREAM, 0);

	*addr = rs_address(arg, 0);
	CHECK(s >= 0);
	CHECK(rbind(s, (struct sockaddr *)addr, sizeof(*addr)) == 0);
	CHECK(rlisten(s, backlog) == 0);
	CHECK(rgetsockname(s, (struct sockaddr *)addr, &length) == 0 && length == sizeof(*addr) && addr->sin_port);
	return s;
}

/* A stream's two ends: the one that connected and the one that was accepted. */
static inline void rs_pair(const char *arg, int ends[2])
{
	struct sockaddr_in addr;
	int listener = rs_listener(arg, &addr, 1);

	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(ends[0] >= 0);
	/* One thread does both: the connection is made before it is accepted. */
	CHECK(rconnect(ends[0], (struct sockaddr *)&addr, sizeof(addr)) == 0);
	ends[1] = raccept(listener, NULL, NULL);
	CHECK(ends[1] >= 0);
	CHECK(rclose(listener) == 0);
}

/* Closes both ends at once, as two processes do: a close waits for the other end. */
static inline void *rs_close_one(void *end)
{
	CHECK(rclose((int)(intptr_t)end) == 0);
	return NULL;
}

static inline void rs_close_pair(int ends[2])
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, rs_close_one, (void *)(intptr_t)ends[0]) == 0);
	rs_close_one((void *)(intptr_t)ends[1]);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* The byte at a place of a stream. */
static inline uint8_t rs_byte(size_t at)
{
	return (uint8_t)(at * 7 + at / 251);
}

#endif
