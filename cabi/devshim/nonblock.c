/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that change O_NONBLOCK, or give the open file another descriptor: see nonblock.h. None of
 * them takes a lock, as a signal handler may call them. A state is VB_FLAG_SET only after one call
 * that no other overlapped.
 */
#include "next.h"
#include "nonblock.h"
#include "umad.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WATCHED 64

static struct {
	atomic_int owner; /* the descriptor + 1; 0: free */
	atomic_int state;
} watched[WATCHED];

static atomic_int used; /* the first ones that have been watched so far */

EXPORT const atomic_int *vb_nonblock_watch(int fd)
{
	for (int i = 0; i < WATCHED; i++) {
		int none = 0, most = atomic_load(&used);

		if (!atomic_compare_exchange_strong(&watched[i].owner, &none, fd + 1))
			continue;
		while (most <= i && !atomic_compare_exchange_weak(&used, &most, i + 1))
			;
		return &watched[i].state;
	}
	return NULL;
}

EXPORT void vb_nonblock_forget(const atomic_int *state)
{
	for (int i = 0; i < WATCHED; i++)
		if (&watched[i].state == state) {
			atomic_store(&watched[i].state, VB_FLAG_UNKNOWN); /* for the next one */
			atomic_store(&watched[i].owner, 0);
		}
}

/* Returns the state of a descriptor that is watched, or NULL. */
static atomic_int *state_of(int fd)
{
	for (int i = 0, n = atomic_load(&used); i < n; i++)
		if (fd >= 0 && atomic_load(&watched[i].owner) == fd + 1)
			return &watched[i].state;
	return NULL;
}

/* Notes that a call is about to change the flag. A second one at the same time hides the order. */
static void change(atomic_int *state)
{
	int was = atomic_load(state);

	while (was != VB_FLAG_SHARED &&
	       !atomic_compare_exchange_weak(state, &was,
					     was == VB_FLAG_CHANGING ? VB_FLAG_SHARED
								     : VB_FLAG_CHANGING))
		;
}

/* Notes that it has done so. */
static void changed(atomic_int *state, int set)
{
	int was = VB_FLAG_CHANGING;

	atomic_compare_exchange_strong(state, &was, set ? VB_FLAG_SET : VB_FLAG_UNKNOWN);
}

static void share(int fd)
{
	atomic_int *state = state_of(fd);

	if (state)
		atomic_store(state, VB_FLAG_SHARED);
}

/*
 * The parent and the child of a fork share all open files: those too that another thread begins to
 * watch while the fork goes on.
 */
static void share_all(void)
{
	for (int i = 0, n = atomic_load(&used); i < n; i++)
		atomic_store(&watched[i].state, VB_FLAG_SHARED);
}

__attribute__((constructor)) static void install(void)
{
	pthread_atfork(share_all, share_all, share_all);
}

#define FCNTL(name) \
	NEXT(name, int(int, int, ...)) \
	EXPORT int name(int fd, int command, ...) \
	{ \
		atomic_int *state = NULL; \
		va_list ap; \
		void *arg; \
		int result; \
\
		va_start(ap, command); \
		arg = va_arg(ap, void *); \
		va_end(ap); \
		if (!next_##name()) \
			return -1; \
		if (command == F_DUPFD || command == F_DUPFD_CLOEXEC || \
		    (command == F_SETFD && !((uintptr_t)arg & FD_CLOEXEC))) \
			share(fd); /* with a program that is executed, too */ \
		else if (command == F_SETFL) \
			state = state_of(fd); \
		if (state) \
			change(state); \
		result = next_##name()(fd, command, arg); \
		if (state) \
			changed(state, !result && (uintptr_t)arg & O_NONBLOCK); \
		return result; \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

/* FIONBIO has its flag in memory, which only the kernel may touch safely. */
NEXT(ioctl, int(int, unsigned long, ...))
EXPORT int ioctl(int fd, unsigned long request, ...)
{
	atomic_int *state = request == FIONBIO ? state_of(fd) : NULL;
	va_list ap;
	void *arg;
	int result;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (ioctl_umad(fd, request, arg, &result))
		return result;
	if (!next_ioctl())
		return -1;
	if (request == FIONCLEX)
		share(fd);
	if (state)
		change(state);
	result = next_ioctl()(fd, request, arg);
	if (state)
		changed(state, 0);
	return result;
}

NEXT(dup, int(int))
EXPORT int dup(int fd)
{
	if (!next_dup())
		return -1;
	share(fd);
	return next_dup()(fd);
}

NEXT(dup2, int(int, int))
EXPORT int dup2(int fd, int onto)
{
	if (!next_dup2())
		return -1;
	share(fd);
	share(onto);
	return next_dup2()(fd, onto);
}

NEXT(dup3, int(int, int, int))
EXPORT int dup3(int fd, int onto, int flags)
{
	if (!next_dup3())
		return -1;
	share(fd);
	share(onto);
	return next_dup3()(fd, onto, flags);
}
