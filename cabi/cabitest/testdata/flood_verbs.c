/* SPDX-License-Identifier: BSD-2-Clause */
/* A session between two queue pairs, in a program without a connection manager. */
#include "loop.h"
#include "flood.h"

struct session {
	struct end a, b;
	struct ibv_mr *mr;
	uint8_t *memory, round;
};

/* Writes all of the memory, and looks at it. */
static void write_all(void *arg)
{
	struct session *s = arg;

	memset(s->a.buf, ++s->round, REGION);
	EQUAL(post_rdma(&s->a, IBV_WR_RDMA_WRITE, 1, REGION, (uintptr_t)s->memory, s->mr->rkey), 0);
	WANT_WC(s->a.cq, 1, IBV_WC_SUCCESS);
	MUST(memcmp(s->a.buf, s->memory, REGION) == 0 && failures == 0);
}

int main(void)
{
	static struct session s;
	struct ibv_context *ctx;

	limit();
	s.memory = guarded();
	ctx = open_loopback();
	pair(&s.a, &s.b, ctx, IBV_QPT_RC);
	MUST(s.mr = ibv_reg_mr(s.b.pd, s.memory, REGION, ALL_ACCESS));
	for (int i = 0; i < 100; i++)
		write_all(&s);
	be_flooded(s.b.qp->qp_num, s.memory, write_all, &s);
	EQUAL(ibv_dereg_mr(s.mr), 0);
	unpair(&s.a, &s.b);
	return finish(ctx);
}
