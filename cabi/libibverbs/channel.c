/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3).
 */
#include "channel.h"
#include "cookie.h"
#include "cq.h"
#include "pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

VB_EXPORT VB_RETURNS_POINTER(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *ctx), (ctx))
{
	struct vb_channel *ch;
	int ends[2], err;

	if (!ctx) {
		errno = EINVAL;
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	err = vb_pipe_open(ends);
	if (err) {
		free(ch);
		errno = err;
		return NULL;
	}
	ch->channel.context = ctx;
	ch->channel.fd = ends[0];
	ch->write_fd = ends[1];
	return &ch->channel;
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel))
{
	struct vb_channel *ch = vb_channel_of(channel);
	int refs;

	if (!channel)
		return EINVAL;
	pthread_mutex_lock(&channel->context->mutex);
	refs = channel->refcnt;
	pthread_mutex_unlock(&channel->context->mutex);
	if (refs)
		return EBUSY;
	close(channel->fd);
	close(ch->write_fd);
	free(ch);
	return 0;
}

int vb_channel_use(struct vb_channel *ch, const struct vb_engine *engine)
{
	const struct vb_engine *none = NULL;

	/* The pipe of a channel that was in use before a fork is the parent's too. */
	if (!atomic_compare_exchange_strong(&ch->engine, &none, engine) && none != engine)
		return EIO;
	pthread_mutex_lock(&ch->channel.context->mutex);
	ch->channel.refcnt++;
	pthread_mutex_unlock(&ch->channel.context->mutex);
	return 0;
}

void vb_channel_unuse(struct vb_channel *ch)
{
	pthread_mutex_lock(&ch->channel.context->mutex);
	ch->channel.refcnt--;
	pthread_mutex_unlock(&ch->channel.context->mutex);
}

VB_EXPORT VB_RETURNS_COUNT(int, ibv_get_cq_event,
	(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context), (channel, cq, cq_context))
{
	const struct vb_engine *engine;
	vb_cq_event event;
	struct vb_cq *q;
	int err;

	if (!channel || !cq || !cq_context) {
		errno = EINVAL;
		return -1;
	}
	engine = atomic_load(&vb_channel_of(channel)->engine);
	if (engine && !vb_engine_alive(engine)) {
		errno = EIO;
		return -1;
	}
	do {
		err = vb_pipe_read(channel->fd, &event, sizeof(event), vb_context_of(channel->context));
		if (err) {
			errno = err;
			return -1;
		}
		q = vb_cookie_report_comp(event);
	} while (!q);
	*cq = &q->ibv.cq;
	*cq_context = q->ibv.cq.cq_context;
	return 0;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int nevents), (cq, nevents))
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
