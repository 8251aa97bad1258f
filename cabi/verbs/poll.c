/*
 * Polling: ibv_poll_cq(3). A poll that finds completions never leaves this file.
 */
#include "cq.h"
#include "wc.h"

#include <errno.h>
#include <sched.h>

/*
 * How many empty polls in a row pass before one reads the network. An empty look
 * takes some 10 ns, reading 700 (measured): the looks between two reads are a
 * tenth of the time, and see at once what another thread has read.
 */
#define PROGRESS_EVERY 8

/*
 * How many before one gives the core to others. Where there are more busy
 * threads than cores the one that is polled for may be waiting for this core; a
 * yield that nobody takes costs less than 1 µs.
 */
#define YIELD_EVERY 64

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

int vb_cq_idle(struct vb_cq *cq, unsigned empty)
{
	/*
	 * Who asked for a notification and finds nothing is about to sleep, maybe
	 * in an epoll_wait that we do not see: the engine has to read by itself.
	 */
	if (atomic_load_explicit(&cq->armed, memory_order_relaxed) && atomic_exchange(&cq->armed, 0))
		cq->engine->wake(cq->ctx);
	if (empty % YIELD_EVERY == 0)
		sched_yield();
	if (empty % PROGRESS_EVERY)
		return 0;
	cq->engine->progress(cq->ctx);
	return 1;
}

/* Moves up to max completions; with none of them *empty is the polls in a row. */
static int take(struct vb_cq *cq, int max, struct ibv_wc *wc, unsigned *empty)
{
	struct vb_cq_ring *ring = &cq->ring;
	uint64_t head, tail;
	int n = 0;

	vb_lock_take(&cq->lock);
	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	while (n < max && head != tail)
		vb_wc_copy(&wc[n++], &ring->slots[head++ & ring->mask]);
	if (n) {
		atomic_store_explicit(&ring->head, head, memory_order_release);
		cq->empty = 0;
	} else {
		*empty = ++cq->empty;
	}
	vb_lock_leave(&cq->lock);
	return n;
}

int vb_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	unsigned empty;
	int n;

	if (num_entries <= 0)
		return num_entries < 0 ? -EINVAL : 0;
	/* In a child of a fork the lock may be another thread's that is not here. */
	if (!vb_engine_alive(cq->engine))
		return -EIO;
	n = take(cq, num_entries, wc, &empty);
	if (n)
		return n;
	if (vb_cq_idle(cq, empty)) {
		n = take(cq, num_entries, wc, &empty);
		if (n)
			return n;
	}
	return atomic_load_explicit(&cq->ring.overrun, memory_order_relaxed) ? -ENOMEM : 0;
}
