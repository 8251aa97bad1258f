/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy by which a polling thread gives the core to others, without a clock. */
#include "giveway.h"
#include "check.h"

#define POLLS (1 << 20)

/* The steps of n empty polls where each yield takes so long. */
struct deeds {
	unsigned yields, sleeps, first; /* first: how many polls passed before the first yield */
};

static uint64_t now = 1;

static int reads; /* each poll reads the network */

/* So many processes send to this one. An arrival ends each sleep, or none does. */
static struct deeds poll_with(struct vb_giveway *g, unsigned n, uint64_t took, unsigned senders,
			      uint64_t sleep_ns, int arrivals)
{
	struct deeds d = {0};

	for (unsigned i = 1; i <= n; i++) {
		now += 50;
		switch (vb_giveway_next(g, i, reads, senders)) {
		case VB_YIELD:
			if (!d.yields++)
				d.first = i;
			now += took;
			vb_giveway_yielded(g, now, took, senders);
			break;
		case VB_SLEEP:
			d.sleeps++;
			now += sleep_ns;
			vb_giveway_slept(g, now, arrivals, senders);
			break;
		case VB_STAY:
			break;
		}
	}
	return d;
}

static struct deeds poll_for(struct vb_giveway *g, unsigned n, uint64_t took)
{
	return poll_with(g, n, took, 0, 60000, 0);
}

int main(void)
{
	struct vb_giveway g = {0};
	struct deeds d;

	/* Alone: hardly a yield. */
	d = poll_for(&g, POLLS, 300);
	CHECK(d.yields == POLLS / VB_ALONE_POLLS && !d.sleeps);

	/*
	 * Polls that read the network: 500 of them, of 3 µs each, fill a slice of a core that it
	 * shares. (It never yielded, and a ping-pong over sockets lost a slice for each message.)
	 */
	reads = 1;
	d = poll_for(&g, POLLS, 300);
	CHECK(d.yields == POLLS / VB_ALONE_READS && !d.sleeps);
	g = (struct vb_giveway){0};
	d = poll_with(&g, 500, 3000000, 1, 10000, 1);
	CHECK(d.yields == 1 && d.sleeps > 200);
	/* In a crowd it leaves that to the application. (Eight ranks of UCX rc took 1.3 times as long.) */
	g = (struct vb_giveway){0};
	d = poll_with(&g, POLLS, 300, 2, 60000, 0);
	CHECK(d.yields == POLLS / VB_ALONE_POLLS && !d.sleeps);
	g = (struct vb_giveway){0};
	reads = 0;

	/* Beside other pollers: a yield after a few polls, also after the next message. */
	d = poll_for(&g, POLLS, 5000);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS * 9 / 10);
	CHECK(d.sleeps > 0 && d.sleeps < d.yields / 100); /* to get another core */
	d = poll_for(&g, 100, 5000);
	CHECK(d.first <= 2 * VB_SHARED_POLLS);

	/* Beside so many pollers that their turns take almost as long as a slice. */
	d = poll_for(&g, POLLS, 1400000);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS * 4 / 5);

	/*
	 * The turns of 16 ranks take longer than a slice. They do not sleep, but for another core.
	 * Beside one peer that is a slice.
	 */
	d = poll_with(&g, POLLS, 6000000, 15, 6000000, 1);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS * 4 / 5 && d.sleeps < d.yields / 6);
	g = (struct vb_giveway){0};
	d = poll_with(&g, VB_ALONE_POLLS + 100, 1600000, 1, 60000, 0);
	CHECK(d.yields == 1 && d.sleeps == 100);

	/*
	 * Others begin to send. Their messages come late among so many, and it yields again. (Sleeps to
	 * get another core did not end then, and an allreduce took ten times as long.)
	 */
	d = poll_with(&g, VB_SLEEPS_NS / 6000000 + 100, 6000000, 15, 6000000, 1);
	CHECK(d.sleeps < VB_SLEEPS_NS / 6000000 + 4 && d.yields > 10);
	g = (struct vb_giveway){0};
	poll_for(&g, VB_ALONE_POLLS, 5000);

	/* One that returns at once does not make it alone; several do. */
	d = poll_for(&g, VB_SHARED_POLLS, 300);
	d = poll_for(&g, 100, 5000);
	CHECK(d.first <= 2 * VB_SHARED_POLLS);
	poll_for(&g, 16 * VB_SHARED_POLLS, 300);
	d = poll_for(&g, VB_ALONE_POLLS - 1, 300);
	CHECK(!d.yields);

	/*
	 * Beside a thread that computes it sleeps after each poll. A yield tests whether that is
	 * there still, once in VB_SLEEPS_NS.
	 */
	d = poll_for(&g, POLLS, 3000000);
	CHECK(d.sleeps > 500 * d.yields && d.yields > 2);

	/* It has gone: alone again when the sleeps are over. */
	poll_for(&g, VB_SLEEPS_NS / 60000 + 8 * VB_SHARED_POLLS, 300);
	d = poll_for(&g, POLLS, 300);
	CHECK(d.yields == POLLS / VB_ALONE_POLLS && !d.sleeps);

	/* Messages show that it is there: some come a slice late. No other slice is lost for that. */
	g = (struct vb_giveway){0};
	poll_with(&g, VB_ALONE_POLLS, 3000000, 1, 10000, 1);
	for (int i = 0; i < 100; i++) {
		d = poll_with(&g, 1000, 3000000, 1, 10000, 1);
		CHECK(d.sleeps == 1000 && !d.yields);
		now += VB_SLICE_NS; /* it had the core while this thread was about to sleep */
	}
	d = poll_with(&g, VB_SLEEPS_NS / 10000, 3000000, 1, 10000, 1); /* none comes late */
	CHECK(d.yields == 1);

	/*
	 * Nothing comes: the sleeps are short, as the thread may wait for what does not end them.
	 */
	g = (struct vb_giveway){.until = now + VB_SLEEPS_NS};
	for (int i = 0; i < VB_ARRIVALS; i++) {
		CHECK(vb_giveway_sleep_ns(&g, now) == 1);
		vb_giveway_slept(&g, now, 1, 1);
	}
	CHECK(vb_giveway_sleep_ns(&g, now) == VB_SLEEP_NS);
	CHECK(vb_giveway_sleep_ns(&g, now + VB_SLEEPS_NS) == 1); /* the thread did something else */
	vb_giveway_slept(&g, now, 0, 1);
	CHECK(vb_giveway_sleep_ns(&g, now) == 1);
	for (int i = 0; i < VB_SLEEPS_NS / VB_SLEEP_NS; i++)
		vb_giveway_slept(&g, now += VB_SLEEP_NS, 0, 1);
	CHECK(vb_giveway_next(&g, VB_ALONE_POLLS, 0, 0) == VB_YIELD);

	/* Something comes before a sleep: the thread reads it. It is there still: the thread sleeps. */
	g = (struct vb_giveway){0};
	CHECK(vb_giveway_refused(&g, 1));
	CHECK(vb_giveway_refused(&g, 3));
	CHECK(!vb_giveway_refused(&g, 4));
	CHECK(!vb_giveway_refused(&g, 5));
	CHECK(vb_giveway_refused(&g, 1));
	CHECK(vb_giveway_refused(&g, 3));
	return 0;
}
