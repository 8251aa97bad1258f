/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of a queue pair's rate: ibv_modify_qp_rate_limit(3), IBV_QP_RATE_LIMIT of ibv_modify_qp(3). */
#include "loop.h"

static struct ibv_context *ctx;

#define KBPS 4000 /* 500 bytes a millisecond */

static void capabilities(void)
{
	struct ibv_device_attr_ex attr;

	MUST(!ibv_query_device_ex(ctx, NULL, &attr));
	CHECK(attr.packet_pacing_caps.qp_rate_limit_min <= 1 && attr.packet_pacing_caps.qp_rate_limit_max >= KBPS);
	EQUAL(attr.packet_pacing_caps.supported_qpts, 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_RAW_PACKET | 1 << IBV_QPT_XRC_SEND);
}

/* How long a WRITE of all memory takes. */
static long long write_ms(struct end *a, struct end *b)
{
	long long from = now_ms();

	EQUAL(post_rdma(a, IBV_WR_RDMA_WRITE, 1, BYTES, (uintptr_t)b->buf, b->mr->rkey), 0);
	WANT_WC(a->cq, 1, IBV_WC_SUCCESS);
	return now_ms() - from;
}

static void limits(void)
{
	/* The default burst is of a millisecond; the last packet goes when those before are out. */
	const long long least = BYTES / (KBPS / 8) - 1 - 2 * 1024 / (KBPS / 8) - 1;
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = KBPS};
	struct ibv_qp_attr attr = {.rate_limit = KBPS};
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	memset(a.buf, 'r', BYTES);
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	CHECK(write_ms(&a, &b) >= least);
	CHECK(!memcmp(a.buf, b.buf, BYTES));
	limit.max_burst_sz = BYTES * 2;
	limit.typical_pkt_sz = 1024;
	limit.rate_limit = 1; /* one burst has all of it */
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	CHECK(write_ms(&a, &b) < PATIENCE_MS);
	limit = (struct ibv_qp_rate_limit_attr){0};
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
	CHECK(write_ms(&a, &b) >= least);
	unpair(&a, &b);
}

static void refusals(void)
{
	struct ibv_qp_rate_limit_attr limit = {.max_burst_sz = 1000};
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_UD);
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL); /* a burst without a rate */
	limit = (struct ibv_qp_rate_limit_attr){.rate_limit = KBPS, .comp_mask = 1};
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
	limit.comp_mask = 0;
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	EQUAL(ibv_modify_qp_rate_limit(a.qp, NULL), EINVAL);
	unpair(&a, &b);
	end_open(&a, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL); /* in RESET */
	end_close(&a, 1);
}

int main(void)
{
	ctx = open_loopback();
	capabilities();
	limits();
	refusals();
	return finish(ctx);
}
