/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to the test programs: checks that end the program and name their line, and an end for
 * programs that hang.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_SECONDS 120

#define CHECK(cond)                                                                                            \
	do {                                                                                                   \
		if (!(cond)) {                                                                                 \
			fprintf(stderr, "%s:%d: %s: errno %d (%s)\n", __FILE__, __LINE__, #cond, errno,        \
				strerror(errno));                                                              \
			_exit(1);                                                                              \
		}                                                                                              \
	} while (0)

/* call returns -1 and sets errno to err. */
#define CHECK_FAILS(call, err)                                                                                 \
	do {                                                                                                   \
		errno = 0;                                                                                     \
		CHECK((call) == -1);                                                                           \
		CHECK(errno == (err));                                                                         \
	} while (0)

/* call returns a null pointer and sets errno to err. */
#define CHECK_NULL(call, err)                                                                                  \
	do {                                                                                                   \
		errno = 0;                                                                                     \
		CHECK((call) == NULL);                                                                         \
		CHECK(errno == (err));                                                                         \
	} while (0)

__attribute__((constructor)) static void end_if_hung(void)
{
	alarm(TIMEOUT_SECONDS);
}

#endif
