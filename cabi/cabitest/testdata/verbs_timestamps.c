/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion timestamps: ibv_create_cq_ex(3), ibv_query_rt_values_ex(3). Each is a reading of the
 * device's clock between posting the request and polling its completion.
 */
#include "loop.h"

#include <stdint.h>

static struct ibv_context *ctx;

static uint64_t device_clock(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	EQUAL(ibv_query_rt_values_ex(ctx, &values), 0);
	EQUAL(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000 + (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t host_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct ibv_cq_ex *timed_queue(uint64_t flags, int depth)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)depth, .wc_flags = IBV_WC_STANDARD_FLAGS | flags};
	struct ibv_cq_ex *cq;

	MUST(cq = ibv_create_cq_ex(ctx, &attr));
	return cq;
}

/* Waits for a completion, which is the current one then. */
static void start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	long long end = now_ms() + PATIENCE_MS;

	while (ibv_start_poll(cq, &attr) == ENOENT)
		MUST(now_ms() < end);
}

static void await(struct ibv_cq_ex *cq, uint64_t id, uint64_t *device, uint64_t *wall)
{
	start(cq);
	EQUAL(cq->status, IBV_WC_SUCCESS);
	EQUAL(cq->wr_id, id);
	*device = ibv_wc_read_completion_ts(cq);
	*wall = ibv_wc_read_completion_wallclock_ns(cq);
	ibv_end_poll(cq);
}

/* Opens two ends with a queue pair each, connected with each other. a has the queue cq. */
static void connect_ends(struct end *a, struct end *b, struct ibv_cq_ex *cq)
{
	end_open(a, ctx, ibv_cq_ex_to_cq(cq));
	end_open(b, ctx, NULL);
	end_qp(a, IBV_QPT_RC);
	end_qp(b, IBV_QPT_RC);
	connect_qps(a->qp, b->qp);
}

static void between(uint64_t flags)
{
	struct ibv_cq_ex *cq = timed_queue(flags, 4);
	uint64_t before, after, wall_before, wall_after, device, wall, last = 0;
	struct end a, b;

	connect_ends(&a, &b, cq);
	for (uint64_t i = 0; i < 100; i++) { /* around the ring */
		EQUAL(post_recv(&b, i, 0, 8), 0);
		before = device_clock();
		wall_before = host_clock();
		EQUAL(post_send(&a, i, 0, 8), 0);
		await(cq, i, &device, &wall);
		after = device_clock();
		wall_after = host_clock();
		CHECK(before <= device && device <= after && last <= device);
		CHECK(wall_before <= wall && wall <= wall_after);
		last = device;
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
	}
	end_close(&a, 0);
	end_close(&b, 1);
	EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* Completions that wait in the queue while it is resized keep theirs. */
static void kept(void)
{
	struct ibv_cq_ex *cq = timed_queue(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 16);
	uint64_t posted[9], device, wall;
	struct end a, b;

	connect_ends(&a, &b, cq);
	for (uint64_t i = 0; i < 8; i++) { /* a receives: its completion comes before b's */
		EQUAL(post_recv(&a, i, 0, 8), 0);
		posted[i] = device_clock();
		EQUAL(post_send(&b, i, 0, 8), 0);
		WANT_WC(b.cq, i, IBV_WC_SUCCESS);
	}
	posted[8] = device_clock();
	EQUAL(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 64), 0);
	for (uint64_t i = 0; i < 8; i++) {
		await(cq, i, &device, &wall);
		CHECK(posted[i] <= device && device <= posted[i + 1]);
	}
	end_close(&a, 0);
	end_close(&b, 1);
	EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	struct ibv_values_ex values = {.comp_mask = 2};
	struct ibv_device_attr_ex attr;

	ctx = open_loopback();
	MUST(!ibv_query_device_ex(ctx, NULL, &attr));
	EQUAL(attr.hca_core_clock, 1000000); /* in kHz: a tick is a nanosecond */
	EQUAL(attr.completion_timestamp_mask, UINT64_MAX);
	EQUAL(ibv_query_rt_values_ex(ctx, &values), EINVAL);
	between(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	between(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	kept();
	return finish(ctx);
}
