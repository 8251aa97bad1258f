/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Macros that define the functions which applications call: exported ones, and those that
 * <infiniband/verbs.h> reaches through a context.
 *
 *	VB_EXPORT VB_RETURNS_ERRNO(ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
 *	{
 *		...
 *	}
 *
 * A call that succeeds leaves errno as it was, although cgo, the loader and the C library
 * change it also where nothing fails. A call that fails sets it. Wrappers of other languages
 * take a changed errno for a failure, and programs print it with %m.
 */
#ifndef VERBENA_CALL_H
#define VERBENA_CALL_H

#include <errno.h>
#include <stddef.h>

/*
 * Defines name as a function that calls the body and then settles errno. If failed, an expression
 * of r, is false, errno gets its old value; otherwise it gets error.
 */
#define VB_CALL(type, name, params, args, failed, error)       \
	type name params;                                      \
	static inline type name##_body params;                 \
	type name params                                       \
	{                                                      \
		int *const e = &errno, before = *e;            \
		type r = name##_body args;                     \
                                                               \
		*e = (failed) ? (error) : before;              \
		return r;                                      \
	}                                                      \
	static inline type name##_body params

/* The function returns 0 or an errno. */
#define VB_RETURNS_ERRNO(name, params, args) VB_CALL(int, name, params, args, r != 0, r)

/* The function returns a number or a negative errno. */
#define VB_RETURNS_NEGATIVE_ERRNO(type, name, params, args)                                        \
	VB_CALL(type, name, params, args, r < 0, (int)-r)

/* The function returns a negative number if it fails; the body has set errno then. */
#define VB_RETURNS_COUNT(type, name, params, args)                                                 \
	VB_CALL(type, name, params, args, (ptrdiff_t)r < 0, *e)

/* The function returns NULL if it fails; the body has set errno then. */
#define VB_RETURNS_POINTER(type, name, params, args) VB_CALL(type, name, params, args, !r, *e)

/* The function returns nothing and cannot fail. */
#define VB_RETURNS_NOTHING(name, params, args)     \
	void name params;                          \
	static inline void name##_body params;     \
	void name params                           \
	{                                          \
		int *const e = &errno, before = *e; \
                                                   \
		name##_body args;                  \
		*e = before;                       \
	}                                          \
	static inline void name##_body params

#endif
