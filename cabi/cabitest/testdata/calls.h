/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errno after calls: a call that succeeds leaves it alone, one that fails sets it. Each check
 * prints the function's name for the test, which knows the libraries' exports.
 */
#ifndef TEST_ERRNO_H
#define TEST_ERRNO_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* errno before each call: no call sets it to that. */
#define BEFORE 4242

static int wrong;

#define WRONG(fn, ...)                                             \
	do {                                                       \
		fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, fn); \
		fprintf(stderr, __VA_ARGS__);                      \
		fputc('\n', stderr);                               \
		wrong++;                                           \
	} while (0)

/* fn(args) satisfies test and leaves errno alone. The value is the call's. */
#define SUCCEEDS(fn, args, test)                                                        \
	({                                                                              \
		errno = BEFORE;                                                         \
		__auto_type r_ = fn args;                                               \
		int e_ = errno;                                                         \
		if (!(r_ test))                                                         \
			WRONG(#fn, "not " #test " (%s)", strerror(e_));                 \
		else if (e_ != BEFORE)                                                  \
			WRONG(#fn, "succeeds and sets errno to %d (%s)", e_, strerror(e_)); \
		printf("succeeds " #fn "\n");                                           \
		r_;                                                                     \
	})

/* The same for functions that return nothing. */
#define DOES(fn, args)                                                                  \
	do {                                                                            \
		errno = BEFORE;                                                         \
		fn args;                                                                \
		int e_ = errno;                                                         \
		if (e_ != BEFORE)                                                       \
			WRONG(#fn, "sets errno to %d (%s)", e_, strerror(e_));          \
		printf("succeeds " #fn "\n");                                           \
	} while (0)

#define FAILS(fn, args, failed, want)                                                   \
	do {                                                                            \
		errno = BEFORE;                                                         \
		__auto_type r = fn args;                                                \
		int e_ = errno;                                                         \
		if (!(failed))                                                          \
			WRONG(#fn, "does not fail");                                    \
		else if (e_ == BEFORE || e_ == 0 || !(want))                            \
			WRONG(#fn, "fails and leaves errno at %d (%s)", e_, strerror(e_)); \
		printf("fails " #fn "\n");                                              \
	} while (0)

/* fn(args) returns the errno that it sets; that errno negated; -1; NULL. */
#define FAILS_ERRNO(fn, args)	 FAILS(fn, args, r > 0, e_ == (int)r)
#define FAILS_NEGATIVE(fn, args) FAILS(fn, args, r < 0, e_ == (int)-r)
#define FAILS_MINUS(fn, args)	 FAILS(fn, args, r < 0, 1)
#define FAILS_NULL(fn, args)	 FAILS(fn, args, !r, 1)

#endif
