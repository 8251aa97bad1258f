/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pingpong tcp|eventfd COUNT [CORE CORE]: two processes block in turns, over TCP or over a
 * pair of eventfds, each on its core. Prints the median and the 99th percentile of half a
 * round trip, in us.
 */
#include "requests.h"

#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define WARMUP 100

static int in, out; /* descriptors of this process */

static void tcp(int child, struct sockaddr_in *addr, int listener)
{
	int on = 1;

	if (child) {
		CHECK((in = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		CHECK(connect(in, (struct sockaddr *)addr, sizeof *addr) == 0);
	} else {
		CHECK((in = accept(listener, NULL, NULL)) >= 0);
	}
	CHECK(setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	out = in;
}

static void ping(void)
{
	uint64_t one = 1;

	CHECK(write(out, &one, sizeof one) == sizeof one);
}

static void pong(void)
{
	uint64_t word;

	CHECK(read(in, &word, sizeof word) == sizeof word);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof addr;
	int count, over_tcp, listener = -1, there, back, status;
	double *took;
	pid_t child;

	CHECK(argc == 3 || argc == 5);
	over_tcp = strcmp(argv[1], "tcp") == 0;
	count = atoi(argv[2]);
	CHECK(took = calloc(count, sizeof *took));
	CHECK((there = eventfd(0, 0)) >= 0 && (back = eventfd(0, 0)) >= 0);
	if (over_tcp) {
		CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		CHECK(bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0);
		CHECK(getsockname(listener, (struct sockaddr *)&addr, &length) == 0);
		CHECK(listen(listener, 1) == 0);
	}
	CHECK((child = fork()) >= 0);
	if (argc == 5)
		pin(atoi(argv[child ? 3 : 4]));
	in = child ? back : there;
	out = child ? there : back;
	if (over_tcp)
		tcp(!child, &addr, listener);
	for (int i = -WARMUP; i < count; i++) {
		double start = now();

		if (!child) {
			pong();
			ping();
			continue;
		}
		ping();
		pong();
		if (i >= 0)
			took[i] = (now() - start) / 2 * 1e6;
	}
	if (!child)
		return 0;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	qsort(took, count, sizeof *took, by_value);
	printf("%.3f %.3f\n", took[count / 2], took[(int)(count * 0.99)]);
	return 0;
}
