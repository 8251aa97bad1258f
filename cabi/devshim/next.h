/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's function of the same name. Each is looked up when this library is loaded. dlsym
 * must not be called in a signal handler or in the child of a fork. Functions that constructors of
 * other libraries call earlier are looked up then.
 */
#ifndef VERBENA_PRELOAD_NEXT_H
#define VERBENA_PRELOAD_NEXT_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

/*
 * Declares next_NAME(), which returns the function or NULL with errno ENOSYS:
 * the compatibility names (__xstat) are not in every C library.
 */
#define NEXT(name, type) \
	static __typeof__(type) *next_##name(void) \
	{ \
		static _Atomic(void *) found; \
		void *f = atomic_load_explicit(&found, memory_order_acquire); \
\
		if (!f) { \
			f = dlsym(RTLD_NEXT, #name); \
			if (f) \
				atomic_store_explicit(&found, f, memory_order_release); \
			else \
				errno = ENOSYS; \
		} \
		return (__typeof__(type) *)f; \
	} \
	__attribute__((constructor(102))) static void find_##name(void) \
	{ \
		int e = errno; \
\
		next_##name(); \
		errno = e; \
	}

#endif
