/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers: rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3), and the table that finds
 * them by cookie.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

/* Chains of the table. It serves thousands of identifiers. */
#define CHAINS 1024

pthread_mutex_t cm_ids = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cm_acked = PTHREAD_COND_INITIALIZER;

/* guarded by cm_ids */
static struct cm_id *chains[CHAINS];
static vb_cookie last_cookie;

static void before_fork(void)
{
	pthread_mutex_lock(&cm_ids);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&cm_ids);
}

/* No thread waits in a child: the condition must forget those of the parent. */
static void after_fork_in_child(void)
{
	pthread_cond_init(&cm_acked, NULL);
	cm_channels_after_fork_in_child();
	after_fork();
}

/* The library is never unloaded (-z nodelete), so neither are the handlers. */
__attribute__((constructor)) static void install(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

vb_cookie cm_cookie(void)
{
	vb_cookie cookie;

	pthread_mutex_lock(&cm_ids);
	cookie = ++last_cookie;
	pthread_mutex_unlock(&cm_ids);
	return cookie;
}

struct cm_id *cm_id_find(vb_cookie cookie)
{
	struct cm_id *id = chains[cookie % CHAINS];

	while (id && id->cookie != cookie)
		id = id->next;
	return id;
}

static void insert(struct cm_id *id)
{
	struct cm_id **chain = &chains[id->cookie % CHAINS];

	pthread_mutex_lock(&cm_ids);
	id->next = *chain;
	*chain = id;
	pthread_mutex_unlock(&cm_ids);
}

/* Removes an identifier from the table: its events find none from now on. */
static void take_out(struct cm_id *id)
{
	struct cm_id **at = &chains[id->cookie % CHAINS];

	pthread_mutex_lock(&cm_ids);
	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	pthread_mutex_unlock(&cm_ids);
}

/* Makes an identifier that the engine has no handle for yet. */
static struct cm_id *new_id(struct rdma_event_channel *channel, void *context,
			    enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->id.channel = channel;
	id->cookie = cm_cookie();
	if (!channel) {
		id->sync = 1;
		id->id.channel = rdma_create_event_channel();
		if (!id->id.channel) {
			free(id);
			return NULL;
		}
	}
	return id;
}

/* Frees an identifier that the engine has forgotten. */
static void free_id(struct cm_id *id)
{
	if (id->sync)
		rdma_destroy_event_channel(id->id.channel);
	while (id->groups) {
		struct cm_group *group = id->groups;

		id->groups = group->next;
		free(group);
	}
	free(id->id.route.path_rec);
	rdma_freeaddrinfo(id->resolved);
	free(id->qp_init_attr);
	free(id->connect);
	free(id);
}

int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		 enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cm_id *id = new_id(channel, context, ps, type);
	int err;

	if (!id)
		return -1; /* errno is that of malloc or pipe */
	err = cm_channel_open(cm_channel_of(id->id.channel));
	if (!err) {
		struct cm_channel *c = cm_channel_of(id->id.channel);

		id->engine = c->engine;
		insert(id);
		err = id->engine->cm_id_create(c->handle, ps, id->cookie, &id->handle);
		if (!err && type) {
			err = id->engine->cm_set_type(id->handle, type);
			if (err)
				id->engine->cm_id_destroy(id->handle);
		}
		if (err)
			take_out(id);
	}
	if (err) {
		free_id(id);
		return cm_fail(err);
	}
	*out = &id->id;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_create_id,
			   (struct rdma_event_channel *channel, struct rdma_cm_id **id,
			    void *context, enum rdma_port_space ps),
			   (channel, id, context, ps))
{
	if (!id)
		return cm_fail(EINVAL);
	return cm_id_create(channel, id, context, ps,
			    ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC);
}

/* -- migrating ------------------------------------------------------------------- */

static enum cm_verdict moves(const struct vb_cm_event *event, const void *arg)
{
	return event->id == ((const struct cm_id *)arg)->cookie ? CM_MOVES : CM_STAYS;
}

/* Locks two channels, always in the same order. */
static void lock_both(struct cm_channel *a, struct cm_channel *b)
{
	if (a > b) {
		struct cm_channel *c = a;

		a = b;
		b = c;
	}
	pthread_mutex_lock(&a->mu);
	pthread_mutex_lock(&b->mu);
}

/* Moves an identifier and its waiting events to another channel: 0 or an errno. */
static int migrate(struct cm_id *id, struct rdma_event_channel *channel)
{
	struct cm_channel *from = cm_channel_of(id->id.channel), *to = cm_channel_of(channel);
	int err;

	if (from == to)
		return 0;
	err = cm_channel_open(to);
	if (err)
		return err;
	if (to->engine != id->engine)
		return EIO;
	/* The lock keeps threads from seeing a later event before the moved ones. */
	lock_both(from, to);
	err = id->engine->cm_migrate(id->handle, to->handle);
	if (!err)
		cm_channel_sift(from, to, moves, id);
	pthread_mutex_unlock(&from->mu);
	pthread_mutex_unlock(&to->mu);
	return err;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_migrate_id,
	(struct rdma_cm_id *rdma_id, struct rdma_event_channel *channel), (rdma_id, channel))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct rdma_event_channel *old;
	unsigned reported;
	int err, sync = !channel;

	if (!id || (id->sync && sync))
		return cm_fail(EINVAL);
	if (sync) {
		channel = rdma_create_event_channel();
		if (!channel)
			return -1;
	}
	err = migrate(id, channel);
	if (err) {
		if (sync)
			rdma_destroy_event_channel(channel);
		return cm_fail(err);
	}
	cm_ack_last(rdma_id);
	old = id->id.channel;
	pthread_mutex_lock(&cm_ids);
	id->id.channel = channel;
	/* Waits until events taken from the old channel are acknowledged. */
	reported = id->events_reported;
	while ((int)(id->events_acked - reported) < 0)
		pthread_cond_wait(&cm_acked, &cm_ids);
	pthread_mutex_unlock(&cm_ids);
	if (id->sync)
		rdma_destroy_event_channel(old);
	id->sync = sync;
	return 0;
}

/* -- requests ---------------------------------------------------------------------- */

int cm_id_adopt(struct cm_id *listener, vb_handle handle, struct cm_id **out)
{
	struct cm_id *id = new_id(listener->id.channel, listener->id.context, listener->id.ps,
				  listener->id.qp_type);
	int err = 0;

	if (!id)
		return ENOMEM;
	id->engine = listener->engine;
	id->handle = handle;
	if (listener->sync) {
		struct rdma_event_channel *own = rdma_create_event_channel();

		err = own ? migrate(id, own) : errno;
		if (!err) {
			id->id.channel = own;
			id->sync = 1;
		} else if (own) {
			rdma_destroy_event_channel(own);
		}
	}
	insert(id);
	if (!err && id->id.qp_type)
		err = id->engine->cm_set_type(handle, id->id.qp_type);
	if (!err)
		err = id->engine->cm_id_adopt(handle, id->cookie);
	if (!err)
		err = cm_query_route(id);
	if (!err) {
		*out = id;
		return 0;
	}
	take_out(id);
	id->engine->cm_id_destroy(handle); /* refuses the request */
	free_id(id);
	return err;
}

/* -- destroying ---------------------------------------------------------------------- */

static enum cm_verdict drops(const struct vb_cm_event *event, const void *arg)
{
	return event->id == ((const struct cm_id *)arg)->cookie ? CM_DROPPED : CM_STAYS;
}

VB_EXPORT VB_RETURNS_COUNT(int, rdma_destroy_id, (struct rdma_cm_id *rdma_id), (rdma_id))
{
	struct cm_id *id = cm_id_of(rdma_id);
	struct cm_channel *channel;
	int err;

	if (!id)
		return cm_fail(EINVAL);
	channel = cm_channel_of(id->id.channel);
	err = id->engine->cm_id_destroy(id->handle);
	/* In a child of a fork the identifiers of the parent are memory only. */
	if (err && vb_engine_alive(id->engine))
		return cm_fail(err);
	take_out(id);
	if (!err) {
		pthread_mutex_lock(&channel->mu);
		cm_channel_sift(channel, NULL, drops, id);
		pthread_mutex_unlock(&channel->mu);
		cm_ack_last(rdma_id);
		pthread_mutex_lock(&cm_ids);
		while (id->events_acked != id->events_reported)
			pthread_cond_wait(&cm_acked, &cm_ids);
		pthread_mutex_unlock(&cm_ids);
	}
	free_id(id);
	return 0;
}
