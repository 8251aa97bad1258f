/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy by which a polling thread gives the core to others, without a clock. */
#include "giveway.h"
#include "check.h"

#define POLLS (1 << 20)

/* The steps of n empty polls where each yield takes so long. */
struct deeds {
	unsigned yields, naps, first; /* first: how many polls passed before the first yield */
};

static uint64_t now = 1;

static struct deeds poll_for(struct vb_giveway *g, unsigned n, uint64_t took)
{
	struct deeds d = {0};

	for (unsigned i = 1; i <= n; i++) {
		now += 50;
		switch (vb_giveway_next(g, i)) {
		case VB_YIELD:
			if (!d.yields++)
				d.first = i;
			now += took;
			vb_giveway_yielded(g, now, took);
			break;
		case VB_NAP:
			d.naps++;
			now += 60000;
			vb_giveway_napped(g, now, 0);
			break;
		case VB_STAY:
			break;
		}
	}
	return d;
}

/* Returns the number of naps after a yield that took a slice; each takes so long. */
static unsigned term_of(struct vb_giveway *g, uint64_t nap_ns, int woken)
{
	unsigned naps = 0;

	vb_giveway_yielded(g, now, VB_SLICE_NS);
	while (vb_giveway_next(g, VB_SHARED_POLLS) == VB_NAP) {
		naps++;
		now += nap_ns;
		vb_giveway_napped(g, now, woken);
	}
	return naps;
}

int main(void)
{
	struct vb_giveway g = {0};
	struct deeds d;

	/* Alone: hardly a yield. */
	d = poll_for(&g, POLLS, 300);
	CHECK(d.yields == POLLS / VB_ALONE_POLLS && !d.naps);

	/* Beside other pollers: a yield after a few polls, also after the next message. */
	d = poll_for(&g, POLLS, 5000);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS * 9 / 10);
	CHECK(d.naps > 0 && d.naps < d.yields / 100); /* to get another core */
	d = poll_for(&g, 100, 5000);
	CHECK(d.first <= 2 * VB_SHARED_POLLS);

	/* Beside so many pollers that their turns take almost as long as a slice. */
	d = poll_for(&g, POLLS, 1400000);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS * 4 / 5);

	/* The turns of 16 ranks may take longer than a slice. Beside one peer that is a slice. */
	g.senders = 15;
	d = poll_for(&g, POLLS, 6000000);
	CHECK(d.yields > POLLS / VB_SHARED_POLLS / 3 && !g.term);

	/* A host has hundreds of processes: a slice is no longer for that. (It was 600 ms.) */
	g.senders = 400;
	poll_for(&g, 4 * VB_SHARED_POLLS, 40000000);
	CHECK(g.term == VB_FIRST_NAPS);
	g = (struct vb_giveway){.senders = 1, .shared = 1};
	poll_for(&g, 4 * VB_SHARED_POLLS, 1600000);
	CHECK(g.term == VB_FIRST_NAPS);
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
	 * Beside a thread that computes: naps, and ever fewer slices lost. (A message
	 * waited for the slices of others on its way there and on its way back.)
	 */
	d = poll_for(&g, POLLS, 3000000);
	CHECK(d.naps > 100 * d.yields && d.yields > 2);

	/* It has gone: alone again when the naps are over. */
	d = poll_for(&g, (VB_LAST_NAPS + 8) * VB_SHARED_POLLS, 300);
	d = poll_for(&g, POLLS, 300);
	CHECK(d.yields == POLLS / VB_ALONE_POLLS && !d.naps);

	/* It comes back: the naps begin small. */
	poll_for(&g, VB_ALONE_POLLS, 3000000);
	d = poll_for(&g, VB_FIRST_NAPS * VB_SHARED_POLLS, 3000000);
	CHECK(d.yields <= 1 && d.naps >= VB_FIRST_NAPS - 1);

	/* Naps that an arrival ends are short: only their time counts. */
	g = (struct vb_giveway){0};
	CHECK(term_of(&g, VB_NAP_NS / 50, 0) == VB_FIRST_NAPS);
	g = (struct vb_giveway){0};
	CHECK(term_of(&g, VB_NAP_NS / 50, 1) == 50 * VB_FIRST_NAPS);

	/*
	 * Where many poll the core is back late after a nap, and there are fewer. (They went on for
	 * seconds, beside threads that had computed for milliseconds.)
	 */
	g = (struct vb_giveway){0};
	CHECK(term_of(&g, 16 * VB_NAP_NS, 0) == VB_FIRST_NAPS / 16);
	CHECK(term_of(&g, 16 * VB_NAP_NS, 1) == VB_FIRST_NAPS / 8);
	for (int i = 0; i < 20; i++)
		d.naps = term_of(&g, 16 * VB_NAP_NS, 1);
	CHECK(d.naps == VB_LAST_NS / VB_NAP_NS / 16);

	/* Something comes before a nap: the thread reads it. It is there still: the thread naps. */
	g = (struct vb_giveway){0};
	CHECK(vb_giveway_refused(&g, VB_SHARED_POLLS));
	CHECK(vb_giveway_refused(&g, 3 * VB_SHARED_POLLS));
	CHECK(!vb_giveway_refused(&g, 4 * VB_SHARED_POLLS));
	CHECK(!vb_giveway_refused(&g, 5 * VB_SHARED_POLLS));
	CHECK(vb_giveway_refused(&g, VB_SHARED_POLLS));
	CHECK(vb_giveway_refused(&g, 3 * VB_SHARED_POLLS));
	return 0;
}
