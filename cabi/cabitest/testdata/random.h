/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to random_calls.c and its parts: random numbers, memory and the objects that its threads
 * share.
 */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include "comp_cntr.h"
#include "loop.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define CONTEXTS 2

/* -- random numbers ---------------------------------------------------------------- */

struct worker {
	uint64_t state;
	pthread_t thread;
	const char *volatile call; /* the call under way, for a debugger */
	_Atomic uint64_t calls;
};

static _Thread_local struct worker *self;

static uint32_t any(void)
{
	self->state ^= self->state << 13;
	self->state ^= self->state >> 7;
	self->state ^= self->state << 17;
	return (uint32_t)(self->state >> 16);
}

static uint32_t below(uint32_t n)
{
	return any() % n;
}

static int one_in(uint32_t n)
{
	return below(n) == 0;
}

/* Whether this call's arguments may be wrong: most are to do some work. */
static _Thread_local int wild;

static int wrong_in(uint32_t n)
{
	return wild && one_in(n);
}

/* Mostly a small number, now and then one at the edge of something. */
static uint32_t number(uint32_t usual)
{
	static const uint32_t odd[] = {0, 1, 2, 0x7f, 0xff, 0x100, 0xffff, 0x10000, 0xffffff, 0x7fffffff, 0x80000000, 0xffffffff};

	return wrong_in(4) ? odd[below(sizeof(odd) / sizeof(odd[0]))] : below(usual);
}

/* -- memory -------------------------------------------------------------------------- */

#define AREA 65536
#define GUARD 4096
#define AREAS 4
#define PATTERN 0xa5

/* Areas that may be registered, each between guards that are not. */
static uint8_t *memory;
/* One that comes and goes. */
static uint8_t *passing;

static uint8_t *area(uint32_t i)
{
	return memory + GUARD + (size_t)i * (AREA + GUARD);
}

static void check_guards(void)
{
	for (int i = 0; i <= AREAS; i++)
		for (int j = 0; j < GUARD; j++)
			if (memory[(size_t)i * (AREA + GUARD) + (size_t)j] != PATTERN) {
				failed(__FILE__, __LINE__, "a byte that nobody registered has changed: guard %d, %d", i, j);
				return;
			}
}

/* -- objects --------------------------------------------------------------------------- */

enum kind {
	PD, MR, MW, CHANNEL, CQ, CQX, SRQ, XRCD, QP, AH, EVENTS, ID,
	DM, TD, PARENT, COUNTERS, CNTR, WQ, TABLE, FLOW, KINDS
};

#define PLACES 16

/* How many there are at most. Few domains and queues, so that much belongs together. */
static const int places[KINDS] = {[PD] = 3, [MR] = 12, [MW] = 4, [CHANNEL] = 3, [CQ] = 6, [CQX] = 4, [SRQ] = 4, [XRCD] = 2, [QP] = 12, [AH] = 4, [EVENTS] = 3, [ID] = 12,
				  [DM] = 3, [TD] = 2, [PARENT] = 2, [COUNTERS] = 3, [CNTR] = 4, [WQ] = 6, [TABLE] = 2, [FLOW] = 6};

/* An object, with how many calls use it now; an event channel with its identifiers. */
struct place {
	void *object;
	int uses, going;
	int ids;	  /* of a channel */
	struct place *on; /* an identifier's channel */
	int event;	  /* an identifier's last, and not acted on */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct place objects[KINDS][PLACES]; /* guarded by mu */
static struct ibv_context *contexts[CONTEXTS];
static int child; /* this process is one, of a fork */
static _Atomic uint64_t succeeded; /* work requests */

/* A random object, NULL if there is none; one that no call uses, if alone is set. mu is held. */
static struct place *pick(enum kind kind, int alone)
{
	uint32_t first = below(PLACES);

	for (uint32_t i = 0; i < PLACES; i++) {
		struct place *p = &objects[kind][(first + i) % PLACES];

		if (p->object && !p->going && !(alone && (p->uses || p->ids)))
			return p;
	}
	return NULL;
}

/* A random object for a call, NULL if there is none. */
static struct place *use(enum kind kind)
{
	struct place *p;

	pthread_mutex_lock(&mu);
	p = pick(kind, 0);
	if (p)
		p->uses++;
	pthread_mutex_unlock(&mu);
	return p;
}

static void done(struct place *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&mu);
	p->uses--;
	pthread_mutex_unlock(&mu);
}

static void *object(struct place *p)
{
	return p ? p->object : NULL;
}

/* A random region for a call: one of the domain, if there is one among a few. */
static struct place *use_mr(struct ibv_pd *pd)
{
	for (int i = 0; i < 8; i++) {
		struct place *p = use(MR);

		if (!p || ((struct ibv_mr *)p->object)->pd == pd)
			return p;
		done(p);
	}
	return use(MR);
}

/* Held to write while no thread may have an event, or take one that uses a queue pair. */
static pthread_rwlock_t cm_events = PTHREAD_RWLOCK_INITIALIZER;

static int destroy_id(struct rdma_cm_id *id)
{
	pthread_rwlock_wrlock(&cm_events);
	if (id->qp)
		rdma_destroy_qp(id);
	pthread_rwlock_unlock(&cm_events);
	return rdma_destroy_id(id) ? errno : 0;
}

static int destroy(enum kind kind, void *o)
{
	switch (kind) {
	case PD:
		return ibv_dealloc_pd(o);
	case MR:
		return ibv_dereg_mr(o);
	case MW:
		return ibv_dealloc_mw(o);
	case CHANNEL:
		return ibv_destroy_comp_channel(o);
	case CQ:
		return ibv_destroy_cq(o);
	case CQX:
		return ibv_destroy_cq(ibv_cq_ex_to_cq(o));
	case SRQ:
		return ibv_destroy_srq(o);
	case XRCD:
		return ibv_close_xrcd(o);
	case QP:
		return ibv_destroy_qp(o);
	case AH:
		return ibv_destroy_ah(o);
	case EVENTS:
		rdma_destroy_event_channel(o);
		return 0;
	case ID:
		return destroy_id(o);
	case DM:
		return ibv_free_dm(o);
	case TD:
		return ibv_dealloc_td(o);
	case PARENT:
		return ibv_dealloc_pd(o);
	case COUNTERS:
		return ibv_destroy_counters(o);
	case CNTR:
		return ibv_destroy_comp_cntr(o);
	case WQ:
		return ibv_destroy_wq(o);
	case TABLE:
		return ibv_destroy_rwq_ind_table(o);
	case FLOW:
		return ibv_destroy_flow(o);
	case KINDS:
		break;
	}
	return 0;
}

/* Whether a call had its proper effect; in a child objects of before the fork are dead. */
static int fine(int err)
{
	return !err || (child && err == EIO);
}

/* Counts an identifier at the place of its channel, or at none for NULL. mu is held. */
static void put_on(struct place *id, struct rdma_event_channel *channel)
{
	if (id->on)
		id->on->ids--;
	id->on = NULL;
	for (int i = 0; channel && i < PLACES; i++)
		if (objects[EVENTS][i].object == channel)
			id->on = &objects[EVENTS][i];
	if (id->on)
		id->on->ids++;
}

/* Keeps an object that was made, or destroys it where there is no place. */
static void keep(enum kind kind, void *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&mu);
	for (int i = 0; i < places[kind]; i++) {
		struct place *p = &objects[kind][i];

		if (!p->object) {
			p->object = o;
			if (kind == ID)
				put_on(p, ((struct rdma_cm_id *)o)->channel);
			pthread_mutex_unlock(&mu);
			return;
		}
	}
	pthread_mutex_unlock(&mu);
	CHECK(fine(destroy(kind, o)));
}

/* Destroys a random object that no call uses, if the library lets it go: whether it did. */
static int drop(enum kind kind)
{
	struct place *found;
	int err;

	pthread_mutex_lock(&mu);
	found = pick(kind, 1);
	if (found)
		found->going = 1;
	pthread_mutex_unlock(&mu);
	if (!found)
		return 0;
	err = destroy(kind, found->object);
	if (!fine(err) && err != EBUSY)
		failed(__FILE__, __LINE__, "destroying an object of kind %d: %d (%s)", kind, err, strerror(err));
	pthread_mutex_lock(&mu);
	if (!err) {
		found->object = NULL;
		found->event = 0;
		put_on(found, NULL);
	}
	found->going = 0;
	pthread_mutex_unlock(&mu);
	return !err;
}

static struct ibv_context *context(void)
{
	return contexts[below(CONTEXTS)];
}

#endif
