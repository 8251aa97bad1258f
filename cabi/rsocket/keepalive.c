/* SPDX-License-Identifier: BSD-2-Clause */
#include "keepalive.h"

#include "forklock.h"
#include "service.h"

#include <limits.h>
#include <stdio.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* no other lock is taken under it */
static struct rs_stream *list;			       /* guarded by mu; holds references */

/* tcp_keepalive_time's own default: tcp(7). */
#define DEFAULT_IDLE_SECONDS 7200

static unsigned system_idle(void)
{
	unsigned seconds;
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");

	if (!f || fscanf(f, "%u", &seconds) != 1)
		seconds = DEFAULT_IDLE_SECONDS;
	if (f)
		fclose(f);
	return seconds;
}

static int64_t due(struct rs_stream *st)
{
	return rs_now_us() + (int64_t)st->keepalive_idle * 1000000;
}

int rs_keepalive_start(struct rs_stream *st)
{
	pthread_mutex_lock(&mu);
	if (!st->keepalive_idle)
		st->keepalive_idle = system_idle();
	if (!st->keepalive_listed) {
		rs_hold(&st->s);
		st->keepalive_next = list;
		list = st;
		st->keepalive_listed = true;
	}
	st->keepalive_due = due(st);
	pthread_mutex_unlock(&mu);
	return rs_service_kick();
}

void rs_keepalive_stop(struct rs_stream *st)
{
	bool listed = false;

	pthread_mutex_lock(&mu);
	for (struct rs_stream **p = &list; *p; p = &(*p)->keepalive_next) {
		if (*p == st) {
			*p = st->keepalive_next;
			st->keepalive_listed = false;
			listed = true;
			break;
		}
	}
	pthread_mutex_unlock(&mu);
	if (listed)
		rs_put(&st->s);
}

int rs_keepalive_set_idle(struct rs_stream *st, int seconds)
{
	pthread_mutex_lock(&mu);
	st->keepalive_idle = (unsigned)seconds;
	st->keepalive_due = due(st);
	bool listed = st->keepalive_listed;

	pthread_mutex_unlock(&mu);
	return listed ? rs_service_kick() : 0;
}

int rs_keepalive_idle(struct rs_stream *st)
{
	pthread_mutex_lock(&mu);
	unsigned seconds = st->keepalive_idle ? st->keepalive_idle : system_idle();

	pthread_mutex_unlock(&mu);
	return (int)seconds;
}

/*
 * Sends an RDMA WRITE of no bytes and without immediate data. It needs no receive of the peer, and
 * the queue pair of the peer acknowledges it. Without an acknowledgement its completion fails the
 * stream.
 */
static void keep_alive(struct rs_stream *st)
{
	pthread_mutex_lock(&st->s.mu);
	st->s.ops->progress(&st->s);
	if (st->state == RS_CONNECTED && st->control_slots) {
		struct ibv_send_wr wr = { .wr_id = RS_WORK_CONTROL, .opcode = IBV_WR_RDMA_WRITE }, *bad;

		st->control_slots--;
		if (ibv_post_send(st->id->qp, &wr, &bad))
			rs_stream_fail(st, EIO);
	}
	pthread_mutex_unlock(&st->s.mu);
}

/*
 * Returns a stream that is due, with a reference. Without one it returns NULL, and *timeout says
 * when the next is due.
 */
static struct rs_stream *next_due(int *timeout)
{
	int64_t now = rs_now_us(), soonest = INT64_MAX;
	struct rs_stream *found = NULL;

	pthread_mutex_lock(&mu);
	for (struct rs_stream *st = list; st && !found; st = st->keepalive_next) {
		if (st->s.generation != rs_generation)
			continue; /* of the parent */
		if (st->keepalive_due <= now) {
			st->keepalive_due = due(st);
			rs_hold(&st->s);
			found = st;
		} else if (st->keepalive_due < soonest) {
			soonest = st->keepalive_due;
		}
	}
	pthread_mutex_unlock(&mu);
	int64_t left = (soonest - now + 999) / 1000;

	*timeout = soonest == INT64_MAX ? -1 : left > INT_MAX ? INT_MAX : (int)left;
	return found;
}

int rs_keepalive_run(void)
{
	struct rs_stream *st;
	int timeout;

	while ((st = next_due(&timeout))) {
		keep_alive(st);
		rs_put(&st->s);
	}
	return timeout;
}

VB_HELD_OVER_FORK(&mu);
