/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * O_NONBLOCK without a system call. libverbena-preload.so sees how the program sets the flag of a
 * watched descriptor. libibverbs.so.1 calls these functions if that library is there, and otherwise
 * asks fcntl(2).
 */
#ifndef VERBENA_NONBLOCK_H
#define VERBENA_NONBLOCK_H

#include <stdatomic.h>

enum {
	VB_FLAG_UNKNOWN,  /* ask */
	VB_FLAG_SET,      /* the program has set O_NONBLOCK, and not changed it since */
	VB_FLAG_CHANGING, /* a call is under way; ask */
	VB_FLAG_SHARED,   /* another descriptor or process has the open file; ask from now on */
};

#define VB_WEAK __attribute__((weak, visibility("default")))

/*
 * Watches a descriptor that no other thread knows yet. Returns where its state is, or NULL if too
 * many are watched.
 */
VB_WEAK const atomic_int *vb_nonblock_watch(int fd);

/* Ends that, before the descriptor is closed. */
VB_WEAK void vb_nonblock_forget(const atomic_int *state);

#endif
