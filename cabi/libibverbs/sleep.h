/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sleep of a thread until one of several completion queues has a completion, or a descriptor is
 * ready. Blocking rsockets sleep so. The thread polls all queues when it wakes up, and takes no
 * events of their channels, which only such threads use.
 *
 * One thread of the process at a time waits for the engine's bell and sockets, the reader. It reads
 * for the others, which wait for the eventfds of their channels. A reader that leaves rings the
 * bell of another thread, which reads from then on.
 */
#ifndef VERBENA_SLEEP_H
#define VERBENA_SLEEP_H

#include "front.h"

#include <poll.h>

#define VB_SLEEP_FEW 16 /* with more descriptors it allocates memory */

/* Its fields belong to sleep.c. It lies on the stack of its thread. */
struct vb_sleep {
	/* Entry i of cqs is the queue whose eventfd fds[i] has, 0 for the caller's descriptors. */
	struct pollfd *fds;
	vb_handle *cqs;
	unsigned count, room;
	unsigned more; /* of the engine's descriptors, behind those */
	enum vb_take how;
	const struct vb_engine *engine; /* NULL without a queue */
	int bell, sockets;		/* of the engine */
	int cancel_state;
	unsigned vain; /* times that the thread, the reader, has read for others only */
	struct vb_sleep *next; /* guarded by the list's lock */
	struct pollfd few_fds[VB_SLEEP_FEW + 2];
	vb_handle few_cqs[VB_SLEEP_FEW];
};

/*
 * Begins a description. bell is an eventfd of the calling thread; other threads write it. The
 * caller has disabled cancellation, and the thread has cancel_state while it sleeps.
 */
VB_PRIVATE void vb_sleep_begin(struct vb_sleep *sleep, int bell, int cancel_state);
/* Add a descriptor and a queue: 0 or ENOMEM. */
VB_PRIVATE int vb_sleep_add_fd(struct vb_sleep *sleep, int fd, short events);
VB_PRIVATE int vb_sleep_add_cq(struct vb_sleep *sleep, struct ibv_cq *cq);
/*
 * Sleeps for up to timeout milliseconds, without a limit if that is negative. Returns the number of
 * the caller's descriptors that are ready, or a negative errno. 0: the time is over, or there are
 * completions.
 */
VB_PRIVATE int vb_sleep(struct vb_sleep *sleep, int timeout);
/* Returns whether the bell ended it. */
static inline int vb_sleep_rang(const struct vb_sleep *sleep)
{
	return sleep->fds[0].revents;
}
VB_PRIVATE void vb_sleep_end(struct vb_sleep *sleep);

#endif
