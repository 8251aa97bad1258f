/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels.
 */
#ifndef VERBENA_CHANNEL_H
#define VERBENA_CHANNEL_H

#include "front.h"

struct vb_channel {
	struct ibv_comp_channel channel; /* its refcnt is guarded by the context's mutex */
	int write_fd;			 /* immutable: the engine's end of the pipe */
	/* atomic: the engine that writes into it; NULL before the first queue */
	_Atomic(const struct vb_engine *) engine;
};

static inline struct vb_channel *vb_channel_of(struct ibv_comp_channel *channel)
{
	return (struct vb_channel *)channel;
}

/* A completion queue begins and ends to use the channel: 0 or EIO for one of before a fork. */
int vb_channel_use(struct vb_channel *channel, const struct vb_engine *engine);
void vb_channel_unuse(struct vb_channel *channel);

#endif
