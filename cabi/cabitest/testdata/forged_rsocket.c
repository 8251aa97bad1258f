/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listener that strangers have sent requests to, in others' names: peers that are
 * there connect at once all the same, and nobody else is accepted.
 */
#include "rsocket.h"
#include "descriptors.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 3

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 256, 256 };
	struct sockaddr_in addr, peer;
	socklen_t length = sizeof(peer);
	int listener, before;
	char byte;

	(void)argc;
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	listener = rs_listener(argv[1], &addr, BACKLOG);
	before = descriptors();
	printf("%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	CHECK(read(0, &byte, 1) == 0); /* the strangers are done */
	printf("%d\n", descriptors() - before);
	for (int i = 0; i < 2 * BACKLOG; i++) {
		int ends[2];
		double began = seconds();

		ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(ends[0] >= 0);
		CHECK(rconnect(ends[0], (struct sockaddr *)&addr, sizeof(addr)) == 0);
		ends[1] = raccept(listener, (struct sockaddr *)&peer, &length);
		CHECK(ends[1] >= 0);
		CHECK(peer.sin_addr.s_addr == addr.sin_addr.s_addr);
		if (seconds() - began > 3) { /* a request is sent again after 4.3 s */
			fprintf(stderr, "connection %d took %.1f s\n", i, seconds() - began);
			return 1;
		}
		rs_close_pair(ends);
	}
	CHECK(rclose(listener) == 0);
	return 0;
}
