/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of the request/response programs. A request has REQUEST bytes, its answer as many
 * as the options say. The server prints "ready" when it listens. The client prints "connected" and
 * the seconds that took, waits for a line on stdin and sends requests for a while. It prints
 * "answered", the answers and the seconds that took, and leaves at the end of stdin. Meanwhile its
 * caller measures both.
 */
#ifndef REQUESTS_H
#define REQUESTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define REQUEST 64
#define EVENTS 64

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

struct options {
	struct sockaddr_in addr;
	int value;   /* bytes of an answer */
	int clients; /* connections */
	int depth;   /* outstanding requests of a connection; none is an idle connection */
	double seconds;
};

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static inline void say(const char *what, double count, double seconds)
{
	printf("%s %.0f %.6f\n", what, count, seconds);
	fflush(stdout);
}

/* Waits for the caller's line, or for the end of its words. */
static inline void await_line(void)
{
	char line[16];

	if (!fgets(line, sizeof line, stdin))
		line[0] = 0;
}

static inline int watch(void)
{
	int epoll = epoll_create1(0);

	CHECK(epoll >= 0);
	return epoll;
}

static inline void watch_fd(int epoll, int op, int fd, uint32_t events, void *data)
{
	struct epoll_event event = { .events = events, .data.ptr = data };

	CHECK(epoll_ctl(epoll, op, fd, &event) == 0);
}

/* PROGRAM server|client ADDR PORT VALUE CLIENTS DEPTH SECONDS */
static inline int parse(int argc, char **argv, struct options *o)
{
	CHECK(argc == 8);
	o->addr.sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, argv[2], &o->addr.sin_addr) == 1);
	o->addr.sin_port = htons(atoi(argv[3]));
	o->value = atoi(argv[4]);
	o->clients = atoi(argv[5]);
	o->depth = atoi(argv[6]);
	o->seconds = atof(argv[7]);
	return strcmp(argv[1], "server") == 0;
}

#endif
