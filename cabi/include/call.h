/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the functions are defined that applications call: those that the libraries
 * export, and those that <infiniband/verbs.h> reaches through a context.
 *
 *	VB_EXPORT VB_RETURNS_ERRNO(ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
 *	{
 *		...
 *	}
 *
 * A call that succeeds leaves errno as it was, whatever happened below it: cgo,
 * the loader and the C library change it also where nothing fails. A call that
 * fails sets it. Wrappers of other languages take an errno that was set for a
 * failure, and programs print it with %m.
 */
#ifndef VERBENA_CALL_H
#define VERBENA_CALL_H

#include <errno.h>
#include <stddef.h>

/*
 * Defines name as a function that calls the body and then settles errno: if failed, an
 * expression of r, is false errno is what it was before; otherwise it is error.
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

/* It returns 0, or the errno that it failed with. */
#define VB_RETURNS_ERRNO(name, params, args) VB_CALL(int, name, params, args, r != 0, r)

/* It returns a number, or an errno negated. */
#define VB_RETURNS_NEGATIVE_ERRNO(type, name, params, args) VB_CALL(type, name, params, args, r < 0, (int)-r)

/* It returns a negative number where it fails; the body has set errno then. */
#define VB_RETURNS_COUNT(type, name, params, args) VB_CALL(type, name, params, args, (ptrdiff_t)r < 0, *e)

/* It returns NULL where it fails; the body has set errno then. */
#define VB_RETURNS_POINTER(type, name, params, args) VB_CALL(type, name, params, args, !r, *e)

/* It returns nothing and cannot fail. */
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
