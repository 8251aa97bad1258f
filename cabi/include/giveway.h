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
 *	  ▼ │   a yield takes a time slice; the naps are over
 *	NAPS    a thread that computes has the core, and a yield costs a slice of it.
 *	        A thread that wakes up gets the core at once, so this one sleeps. An
 *	        arrival may end a nap. Among many pollers a nap takes long, and so
 *	        the time of the naps is bounded, too.
 *
 * Several threads may poll one queue: the fields are atomic, and where threads overwrite each other
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
	/* the same while other threads wait: enough to read the network once */
	VB_SHARED_POLLS = 8,
	/* a longer yield was taken: two switches of threads and a poll */
	VB_TAKEN_NS = 2000,
	/* untaken yields in a row until ALONE: the scheduler sometimes returns at once */
	VB_UNTAKEN = 4,
	/*
	 * A longer yield went to a thread that computes, not to some that poll. Linux's
	 * slices end at a tick after 1.4 ms on two processors, and after 2.8 on eight. Where
	 * several processes send to this one, all of them may poll: then for each of them, up to
	 * the time of the naps that follow.
	 */
	VB_SLICE_NS = 1500000,
	/* about 4 ms of naps, before a yield tests whether that thread is still there */
	VB_FIRST_NAPS = 64,
	/* the naps double up to this number: lost slices are a hundredth of the time */
	VB_LAST_NAPS = 4096,
	/*
	 * The naps end after so long for each of them. A nap takes 60 µs beside such a thread, 5
	 * if an arrival ends it, and milliseconds among many pollers.
	 */
	VB_NAP_NS = 500000,
	VB_LAST_NS = 256000000, /* and after so long in all: a hundred slices */
	/*
	 * Two threads that poll for each other on one core, and yield to each other, stay
	 * there for long where another core is idle: to the scheduler neither has waited
	 * (measured: 15 to 500 ms). One that sleeps wakes up on an idle core.
	 */
	VB_TAKEN_BEFORE_NAP = 8,
	VB_NAP_EVERY_NS = 10000000,
};

struct vb_giveway {
	atomic_bool shared;
	atomic_uint taken, untaken; /* yields in a row */
	atomic_uint naps; /* to come */
	atomic_uint refused; /* the empty poll before the last nap that something forestalled */
	atomic_uint senders; /* the processes of this host that send to this one; 0: unknown */
	atomic_uint term; /* the naps after the last yield that took a slice; 0: the last did not */
	_Atomic uint64_t napped; /* when, to get another core */
	_Atomic uint64_t until; /* when the naps of the term end */
};

enum vb_way { VB_STAY, VB_YIELD, VB_NAP };

#define VB_GET(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define VB_SET(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/* Returns the thread's next step after its poll, the empty-th in a row, found nothing. */
static inline enum vb_way vb_giveway_next(struct vb_giveway *g, unsigned empty)
{
	unsigned naps;

	if (empty % VB_SHARED_POLLS || (empty % VB_ALONE_POLLS && !VB_GET(g->shared)))
		return VB_STAY;
	naps = VB_GET(g->naps);
	if (!naps)
		return VB_YIELD;
	VB_SET(g->naps, naps - 1);
	return VB_NAP;
}

/* Notes a nap that ended now. Those that an arrival ended count only by their time: it is short. */
static inline void vb_giveway_napped(struct vb_giveway *g, uint64_t now, int woken)
{
	if (now >= VB_GET(g->until))
		VB_SET(g->naps, 0);
	else if (woken)
		VB_SET(g->naps, VB_GET(g->naps) + 1);
}

/*
 * Notes that something came before a nap, after the empty-th poll in a row. Returns whether to read
 * it at once. If it is there still, the thread that reads it may wait for this core.
 */
static inline int vb_giveway_refused(struct vb_giveway *g, unsigned empty)
{
	unsigned last = VB_GET(g->refused);

	VB_SET(g->refused, empty);
	return empty == VB_SHARED_POLLS || empty - last != VB_SHARED_POLLS;
}

/* Returns the longest time that so many naps go on. */
static inline uint64_t vb_naps_ns(unsigned naps)
{
	return naps < VB_LAST_NS / VB_NAP_NS ? (uint64_t)naps * VB_NAP_NS : VB_LAST_NS;
}

/* Returns the time from which a yield went to a thread that computes. */
static inline uint64_t vb_slice_ns(unsigned senders)
{
	uint64_t turns = (uint64_t)VB_SLICE_NS * (senders ? senders : 1);

	return turns < vb_naps_ns(VB_FIRST_NAPS) ? turns : vb_naps_ns(VB_FIRST_NAPS);
}

/* Notes a yield that took so long and ended now. */
static inline void vb_giveway_yielded(struct vb_giveway *g, uint64_t now, uint64_t took)
{
	unsigned term = VB_GET(g->term);

	if (took < VB_TAKEN_NS) {
		VB_SET(g->taken, 0);
		VB_SET(g->term, 0);
		VB_SET(g->untaken, VB_GET(g->untaken) + 1);
		if (VB_GET(g->untaken) >= VB_UNTAKEN)
			VB_SET(g->shared, 0);
		return;
	}
	VB_SET(g->shared, 1);
	VB_SET(g->untaken, 0);
	if (took >= vb_slice_ns(VB_GET(g->senders))) {
		term = !term ? VB_FIRST_NAPS : term < VB_LAST_NAPS ? 2 * term : VB_LAST_NAPS;
		VB_SET(g->naps, term);
		VB_SET(g->term, term);
		VB_SET(g->until, now + vb_naps_ns(term));
		return;
	}
	VB_SET(g->term, 0);
	VB_SET(g->taken, VB_GET(g->taken) + 1);
	if (VB_GET(g->taken) >= VB_TAKEN_BEFORE_NAP && now - VB_GET(g->napped) > VB_NAP_EVERY_NS) {
		VB_SET(g->taken, 0);
		VB_SET(g->napped, now);
		VB_SET(g->naps, 1);
	}
}

#undef VB_GET
#undef VB_SET

#endif
