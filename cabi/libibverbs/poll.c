/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling: ibv_poll_cq(3). A poll that finds completions never leaves this file.
 */
#define _GNU_SOURCE
#include "cq.h"
#include "wc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

/*
 * The number of empty polls in a row between two that read the network, where the board shows
 * packets that come through memory. Elsewhere each poll reads. A thread that shares its core polls
 * once in its turn, and a poll that does not read costs it a turn.
 */
#define BOARD_EVERY 128

/*
 * The number of polls that such a poll stands for, and one before which other threads had the core:
 * sockets and timers are looked at as often as before in time, not in polls.
 */
#define LATE_POLLS 16

/* A thread polls if it finds nothing so often in a row; one that is about to sleep stops before. */
#define POLLER_POLLS 16

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

uint64_t vb_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

uint64_t vb_yield(struct vb_giveway *g, unsigned senders)
{
	uint64_t before = vb_now(), after;

	sched_yield();
	after = vb_now();
	vb_giveway_yielded(g, after, after - before, senders);
	return after - before;
}

/* Returns the number of processes of this host that send to this one; 0: unknown. */
static unsigned senders(const struct vb_board *board)
{
	return board ? atomic_load_explicit(&board->entries, memory_order_relaxed) : 0;
}

/*
 * Sleeps until something arrives, for as long as the policy says, and reads. If something is there
 * already it only reads, unless it has just done so.
 */
static void sleep_on(struct vb_cq *cq, struct vb_giveway *g, unsigned empty)
{
	static const struct timespec moment = {.tv_nsec = 1};
	struct timespec longest = {.tv_nsec = vb_giveway_sleep_ns(g, vb_now())};
	struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int arrival = 0;

	if (cq->engine->nap_begin(cq->handle, &fds[0].fd, &fds[1].fd)) {
		ppoll(fds, 2, &longest, NULL);
		cq->engine->nap_end(cq->handle);
		arrival = (fds[0].revents | fds[1].revents) & POLLIN;
		if ((fds[0].revents | fds[1].revents) & POLLNVAL) /* the descriptors are lost */
			nanosleep(&moment, NULL);
	} else if (vb_giveway_refused(g, empty)) {
		cq->engine->progress(cq->handle, 1);
		return;
	} else {
		nanosleep(&moment, NULL);
	}
	vb_giveway_slept(g, vb_now(), arrival, senders(cq->board));
}

/* ibv_poll_cq(3) is no cancellation point, and a sleep must end as it began. */
static void sleep_uncancelled(struct vb_cq *cq, struct vb_giveway *g, unsigned empty)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	sleep_on(cq, g, empty);
	pthread_setcancelstate(state, &state);
}

/* Reports whether something has arrived that the engine has not read. */
static int board_shows(const struct vb_board *board)
{
	unsigned n = atomic_load_explicit(&board->entries, memory_order_relaxed);

	for (unsigned i = 0; i < n; i++) {
		uintptr_t data = atomic_load_explicit(&board->at[i].data, memory_order_relaxed);
		uint64_t next = atomic_load_explicit(&board->at[i].next, memory_order_relaxed);

		if (data && atomic_load_explicit((_Atomic uint64_t *)(data + (next & board->mask)),
						 memory_order_relaxed))
			return 1;
	}
	return 0;
}

/* Reports whether the board tells when to read the network. */
static int suffices(const struct vb_board *board)
{
	return board && atomic_load_explicit(&board->suffices, memory_order_relaxed);
}

/*
 * Returns the number of polls that this one, the empty-th in a row, counts for: 0 if it is not to
 * read the network.
 */
static unsigned due(struct vb_board *board, unsigned empty)
{
	if (!suffices(board))
		return 1;
	atomic_store_explicit(&board->polls,
			      atomic_load_explicit(&board->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (board_shows(board))
		return 1;
	return empty % BOARD_EVERY ? 0 : LATE_POLLS;
}

int vb_cq_idle(struct vb_cq *cq, int most)
{
	static __thread struct vb_giveway giveway;
	unsigned empty = atomic_load_explicit(&cq->empty, memory_order_relaxed) + 1, polls;
	const void *armed_by;

	atomic_store_explicit(&cq->empty, empty, memory_order_relaxed);
	/* A thread that asked for a notification and finds nothing is about to sleep. */
	armed_by = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (armed_by && armed_by == vb_thread()) {
		if (!vb_channel_sleep(vb_channel_of(cq->ibv.cq.channel), cq, most))
			atomic_store_explicit(&cq->armed, NULL, memory_order_relaxed);
		return 1;
	}
	if (empty % POLLER_POLLS == 0)
		vb_channel_polled();
	polls = due(cq->board, empty);
	switch (vb_giveway_next(&giveway, empty, !suffices(cq->board), senders(cq->board))) {
	case VB_YIELD:
		if (vb_yield(&giveway, senders(cq->board)) >= VB_TAKEN_NS && polls < LATE_POLLS)
			polls = LATE_POLLS;
		break;
	case VB_SLEEP:
		vb_channel_polled();
		sleep_uncancelled(cq, &giveway, empty);
		return 1;
	case VB_STAY:
		break;
	}
	if (polls)
		cq->engine->progress(cq->handle, polls);
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

VB_RETURNS_COUNT(int, vb_poll_cq, (struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc),
		 (ibcq, num_entries, wc))
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
	if (vb_cq_idle(cq, num_entries)) {
		n = take(cq, num_entries, wc);
		if (n)
			return n;
	}
	return atomic_load_explicit(&cq->ring.overrun, memory_order_relaxed) ? -ENOMEM : 0;
}
