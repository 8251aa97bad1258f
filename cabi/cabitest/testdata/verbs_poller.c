/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Go runtime's poller is never started, whose descriptors a daemon would
 * close, and be ended for it: not by polling busily, and not by the garbage of
 * objects that come and go.
 */
#include "loop.h"
#include "poller.h"

#define PAIRS 200
#define ROUNDS 6
#define BUSY_MS 20

static void no_poller(const char *when)
{
	if (count_pollers() != 0)
		failed(__FILE__, __LINE__, "%s: the runtime's poller is there", when);
}

static void spin(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (long long end = now_ms() + BUSY_MS; now_ms() < end;)
		EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

int main(void)
{
	static struct end ends[2 * PAIRS];
	struct ibv_context *ctx = open_loopback();
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	spin(a.cq);
	no_poller("polled");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PAIRS; i++)
			pair(&ends[2 * i], &ends[2 * i + 1], ctx, IBV_QPT_RC);
		for (int i = 0; i < PAIRS; i++)
			unpair(&ends[2 * i], &ends[2 * i + 1]);
		spin(a.cq);
		no_poller("objects came and went");
	}
	unpair(&a, &b);
	return finish(ctx);
}
