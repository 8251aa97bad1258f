/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a thread that polls and finds nothing gives the core to others: a state
 * machine without a clock.
 *
 *	ALONE   a yield that no thread takes costs as much as half a message: seldom
 *	  │ ▲
 *	  ▼ │   a yield is taken; several in a row are not
 *	SHARED  other threads wait for this core, maybe the one with the answer: at once
 *	  │ ▲
 *	  ▼ │   a yield takes a time slice; none is lost for long
 *	SLEEPS  a thread that computes has the core, and a yield costs a slice of it. A
 *	        thread that wakes up gets the core at once, so this one sleeps until
 *	        something arrives.
 *
 * The fields are atomic, as they may be those of several threads. Where these overwrite each other
 * only a hint is lost.
 */
#ifndef VERBENA_GIVEWAY_H
#define VERBENA_GIVEWAY_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * The numbers of the policy. Rows of `make bench` to look at: those of latency on
 * the same host, Open MPI with more ranks than cores, and a ping-pong beside burners.
 */
enum {
	/* empty polls between yields; an untaken yield costs 500 ns, a poll 10 */
	VB_ALONE_POLLS = 4096,
	/*
	 * The same where each poll reads the network, for a µs. Of 4,096 such polls a thread that
	 * computes would end most: the poller would never yield, and lose a slice for each message.
	 * Not where several processes of the host send to this one: ranks yield by themselves.
	 */
	VB_ALONE_READS = 256,
	/* the same while other threads wait: enough to read the network once */
	VB_SHARED_POLLS = 8,
	/* a longer yield was taken: two switches of threads and a poll */
	VB_TAKEN_NS = 2000,
	/* untaken yields in a row until ALONE: the scheduler sometimes returns at once */
	VB_UNTAKEN = 4,
	/*
	 * A longer yield went to a thread that computes, not to some that poll. Linux's
	 * slices end at a tick after 1.4 ms on two processors, and after 2.8 on eight. Where
	 * several processes send to this one all of them may poll, and their turns take as long.
	 */
	VB_SLICE_NS = 1500000,
	/* the thread sleeps, not yields, for so long after the last slice that it lost */
	VB_SLEEPS_NS = 32000000,
	/*
	 * The longest sleep: a lost slice takes as long. But a poll must not block, so other sleeps
	 * end at once, which takes 60 µs beside such a thread: until so many in a row were ended by
	 * an arrival. The thread may also wait for something that no arrival shows.
	 */
	VB_SLEEP_NS = 4000000,
	VB_ARRIVALS = 16,
	/*
	 * Two threads that poll for each other on one core, and yield to each other, stay
	 * there for long where another core is idle: to the scheduler neither has waited
	 * (measured: 15 to 500 ms). One that sleeps wakes up on an idle core.
	 */
	VB_TAKEN_BEFORE_SLEEP = 8,
	VB_SLEEP_EVERY_NS = 10000000,
};

struct vb_giveway {
	atomic_bool shared;
	atomic_uint taken, untaken; /* yields in a row */
	atomic_uint refused; /* the empty poll before the last sleep that something forestalled */
	atomic_uint arrivals; /* sleeps in a row that one ended */
	_Atomic uint64_t ended; /* when the last sleep did, or the yield before the first */
	_Atomic uint64_t slept; /* when, to get another core */
	_Atomic uint64_t until; /* it sleeps instead of yielding until then; 0: it yields */
};

enum vb_way { VB_STAY, VB_YIELD, VB_SLEEP };

#define VB_GET(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define VB_SET(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/*
 * Returns the thread's next step after its poll, the empty-th in a row, found nothing. With reads
 * each poll reads the network. So many processes of the host send to this one; 0: unknown.
 */
static inline enum vb_way vb_giveway_next(struct vb_giveway *g, unsigned empty, int reads,
					  unsigned senders)
{
	unsigned alone = reads && senders <= 1 ? VB_ALONE_READS : VB_ALONE_POLLS;

	if (VB_GET(g->until))
		return VB_SLEEP;
	if (empty % VB_SHARED_POLLS || (empty % alone && !VB_GET(g->shared)))
		return VB_STAY;
	return VB_YIELD;
}

/*
 * Notes that something came before a sleep, after the empty-th poll in a row. Returns whether to
 * read it at once. If it is there still, the thread that reads it may wait for this core.
 */
static inline int vb_giveway_refused(struct vb_giveway *g, unsigned empty)
{
	unsigned last = VB_GET(g->refused);

	VB_SET(g->refused, empty);
	return empty == 1 || empty - last != 1;
}

/*
 * Returns how long a sleep from now on may take. One after the time of the sleeps is to get another
 * core, or follows a pause of the thread.
 */
static inline long vb_giveway_sleep_ns(struct vb_giveway *g, uint64_t now)
{
	return now >= VB_GET(g->until) || VB_GET(g->arrivals) < VB_ARRIVALS ? 1 : VB_SLEEP_NS;
}

/*
 * Notes a sleep that ended now, by an arrival or not. If a slice has passed since the last one, a
 * thread that computes is there still. So many processes of this host send to this one; 0: unknown.
 */
static inline void vb_giveway_slept(struct vb_giveway *g, uint64_t now, int arrival,
				    unsigned senders)
{
	uint64_t ended = VB_GET(g->ended), until = VB_GET(g->until);

	if (arrival && now - ended >= VB_SLICE_NS && ended < until && senders <= 1)
		VB_SET(g->until, now + VB_SLEEPS_NS);
	else if (now >= until)
		VB_SET(g->until, 0);
	VB_SET(g->arrivals, arrival ? VB_GET(g->arrivals) + 1 : 0);
	VB_SET(g->ended, now);
}

/* Notes a yield that took so long and ended now; senders are as before. */
static inline void vb_giveway_yielded(struct vb_giveway *g, uint64_t now, uint64_t took,
				      unsigned senders)
{
	if (took < VB_TAKEN_NS) {
		VB_SET(g->taken, 0);
		VB_SET(g->untaken, VB_GET(g->untaken) + 1);
		if (VB_GET(g->untaken) >= VB_UNTAKEN)
			VB_SET(g->shared, 0);
		return;
	}
	VB_SET(g->shared, 1);
	VB_SET(g->untaken, 0);
	if (took >= VB_SLICE_NS && senders <= 1) {
		VB_SET(g->until, now + VB_SLEEPS_NS);
		VB_SET(g->ended, now);
		return;
	}
	VB_SET(g->taken, VB_GET(g->taken) + 1);
	if (VB_GET(g->taken) >= VB_TAKEN_BEFORE_SLEEP && now - VB_GET(g->slept) > VB_SLEEP_EVERY_NS) {
		VB_SET(g->taken, 0);
		VB_SET(g->slept, now);
		VB_SET(g->until, now); /* one sleep */
		VB_SET(g->ended, now);
	}
}

#undef VB_GET
#undef VB_SET

#endif
