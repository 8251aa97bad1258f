/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to the programs that strangers flood: limits, memory with guards around it, and a measure
 * of the programs' growth.
 */
#ifndef FLOOD_H
#define FLOOD_H

#include "poller.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define REGION 65536
#define GUARD 0x5a
#define MAX_DATA (512UL << 20)
#define MAX_FILES 256

/* The condition holds, or the program ends. */
#define HOLDS(cond)                                                                                            \
	do {                                                                                                   \
		if (!(cond)) {                                                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

/* The limits of `ulimit -d 524288 -n 256`, set before the engine is loaded. */
static void limit(void)
{
	struct rlimit data = { MAX_DATA, MAX_DATA }, files = { MAX_FILES, MAX_FILES };

	HOLDS(setrlimit(RLIMIT_DATA, &data) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0);
}

/* Memory between two guards of the same size. */
static uint8_t *guarded(void)
{
	uint8_t *m = mmap(NULL, 3 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HOLDS(m != MAP_FAILED);
	memset(m, GUARD, 3 * REGION);
	return m + REGION;
}

static void check_guards(const uint8_t *m)
{
	for (int i = 0; i < REGION; i++)
		HOLDS(m[i - REGION] == GUARD && m[i + REGION] == GUARD);
}

/* The most memory that the process ever had, in KiB. */
static long peak_kib(void)
{
	char line[200];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	HOLDS(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %ld", &kib);
	fclose(f);
	HOLDS(kib > 0);
	return kib;
}

/* The processor time that the process has had, in microseconds. */
static long cpu_us(void)
{
	struct rusage u;

	HOLDS(getrusage(RUSAGE_SELF, &u) == 0);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000L + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static void say(long number)
{
	printf("%ld\n", number);
	fflush(stdout);
}

/*
 * Whether the test has written enough. At one of its bytes the program is idle until the next one,
 * and then prints the CPU time that it took all the same.
 */
static int over(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	long before;
	char c;

	if (poll(&p, 1, 0) == 0)
		return 0;
	if (read(0, &c, 1) <= 0)
		return 1;
	say(0);
	before = cpu_us();
	if (read(0, &c, 1) <= 0)
		return 1;
	say(cpu_us() - before);
	return 0;
}

/* Prints that the flood may begin, calls turn until it is over, and prints its effects. */
static void be_flooded(int port, const uint8_t *memory, void (*turn)(void *), void *arg)
{
	long before = peak_kib(), turns = 0;

	say(port);
	for (; !over(); turns++)
		turn(arg);
	turn(arg); /* once more, when it is over */
	check_guards(memory);
	HOLDS(count_pollers() == 0);
	printf("%ld %ld\n", peak_kib() - before, turns);
}

#endif
