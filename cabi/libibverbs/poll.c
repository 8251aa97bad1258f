/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling: ibv_poll_cq(3). A poll that finds completions never leaves this file.
 */
#include "cq.h"
#include "wc.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

/*
 * How many empty polls in a row pass before one reads the network. An empty look
 * takes some 10 ns and sees at once what another thread has read; reading takes
 * 100 where packets come through memory, 700 where by sockets (measured).
 */
#define PROGRESS_EVERY 2

/*
 * The same where news of packets that come through memory is seen without reading,
 * and for how many polls one then stands: sockets and timers are looked at as often
 * as before in time, not in polls.
 */
#define PATIENT_EVERY 128
#define PATIENT_POLLS 16

/*
 * How many before one gives the core to others. Where there are more busy
 * threads than cores the one that is polled for may be waiting for this core. A
 * yield that nobody takes costs some 500 ns (measured), as much as half a
 * message: while nobody takes them they are seldom.
 */
#define YIELD_OFTEN  64
#define YIELD_SELDOM 4096

/* A yield that takes longer gave the core to somebody. */
#define TAKEN_NS 2000

/*
 * Two threads that poll for each other on one core, and yield to each other, stay
 * there for long where another core is idle: to the scheduler neither has waited
 * (measured: 15 to 500 ms). One that sleeps wakes up on an idle core.
 */
#define TAKEN_BEFORE_NAP 8
#define NAP_EVERY_NS	 10000000

void vb_cq_lock(struct vb_cq *a, struct vb_cq *b)
{
	struct vb_cq *first = a < b ? a : b, *second = a < b ? b : a;

	if (first)
		vb_lock_take(&first->lock);
	if (second && second != first)
		vb_lock_take(&second->lock);
}

void vb_cq_unlock(struct vb_cq *a, struct vb_cq *b)
{
	if (a)
		vb_lock_leave(&a->lock);
	if (b && b != a)
		vb_lock_leave(&b->lock);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

/* Gives the core to whoever waits for it. */
static void give_way(struct vb_cq *cq)
{
	static const struct timespec moment = {.tv_nsec = 1};
	uint64_t before = now(), after;

	sched_yield();
	after = now();
	if (after - before < TAKEN_NS) {
		cq->yields.taken = 0;
		cq->yields.seldom = 1;
		return;
	}
	cq->yields.seldom = 0;
	if (++cq->yields.taken >= TAKEN_BEFORE_NAP && after - cq->yields.napped > NAP_EVERY_NS) {
		cq->yields.taken = 0;
		cq->yields.napped = after;
		nanosleep(&moment, NULL);
	}
}

/* Whether something has come that the engine has not read. */
static int has_news(const struct vb_news *news)
{
	unsigned n = atomic_load_explicit(&news->seats, memory_order_relaxed);

	for (unsigned i = 0; i < n; i++) {
		uintptr_t data = atomic_load_explicit(&news->at[i].data, memory_order_relaxed);
		uint64_t next = atomic_load_explicit(&news->at[i].next, memory_order_relaxed);

		if (data && atomic_load_explicit((_Atomic uint64_t *)(data + (next & news->mask)), memory_order_relaxed))
			return 1;
	}
	return 0;
}

/* For how many polls this one is to read the network, which is the empty-th in a row. */
static unsigned due(struct vb_news *news, unsigned empty)
{
	if (!news || !atomic_load_explicit(&news->patient, memory_order_relaxed))
		return empty % PROGRESS_EVERY == 0;
	atomic_store_explicit(&news->looks, atomic_load_explicit(&news->looks, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (has_news(news))
		return 1;
	return empty % PATIENT_EVERY ? 0 : PATIENT_POLLS;
}

int vb_cq_idle(struct vb_cq *cq)
{
	unsigned empty = atomic_load_explicit(&cq->empty, memory_order_relaxed) + 1, polls;

	atomic_store_explicit(&cq->empty, empty, memory_order_relaxed);
	/*
	 * Who asked for a notification and finds nothing is about to sleep, maybe
	 * in an epoll_wait that we do not see: the engine has to read by itself.
	 */
	if (atomic_load_explicit(&cq->armed, memory_order_relaxed) && atomic_exchange(&cq->armed, 0))
		cq->engine->wake(cq->ctx);
	if (empty % YIELD_OFTEN == 0 && (empty % YIELD_SELDOM == 0 || !cq->yields.seldom))
		give_way(cq);
	polls = due(cq->news, empty);
	if (polls)
		cq->engine->progress(cq->ctx, polls);
	return polls != 0;
}

/* Moves up to max completions. */
static int take(struct vb_cq *cq, int max, struct ibv_wc *wc)
{
	struct vb_cq_ring *ring = &cq->ring;
	uint64_t head, tail;
	int n = 0;

	if (vb_cq_is_empty(cq))
		return 0;
	vb_lock_take(&cq->lock);
	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	while (n < max && head != tail)
		vb_wc_copy(&wc[n++], &ring->slots[head++ & ring->mask]);
	if (n) {
		atomic_store_explicit(&ring->head, head, memory_order_release);
		atomic_store_explicit(&cq->empty, 0, memory_order_relaxed);
		vb_cq_found(cq);
	}
	vb_lock_leave(&cq->lock);
	return n;
}

VB_RETURNS_COUNT(int, vb_poll_cq, (struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc), (ibcq, num_entries, wc))
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	int n;

	if (num_entries <= 0)
		return num_entries < 0 ? -EINVAL : 0;
	/* In a child of a fork the lock may be another thread's that is not here. */
	if (!vb_engine_alive(cq->engine))
		return -EIO;
	n = take(cq, num_entries, wc);
	if (n)
		return n;
	if (vb_cq_idle(cq)) {
		n = take(cq, num_entries, wc);
		if (n)
			return n;
	}
	return atomic_load_explicit(&cq->ring.overrun, memory_order_relaxed) ? -ENOMEM : 0;
}
