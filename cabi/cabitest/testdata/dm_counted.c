/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory is in use before the key of a region of it is in force. The engine's function that
 * registers memory tries to free it in between.
 */
#include "loop.h"
#include "pd.h"

static struct vb_engine watched;
static const struct vb_engine *engine;
static struct ibv_dm *dm;
static int registered;

static int mr_reg(vb_handle pd, void *addr, size_t length, uint64_t iova, uint32_t access, vb_handle *mr,
		  uint32_t *lkey, uint32_t *rkey)
{
	int err = engine->mr_reg(pd, addr, length, iova, access, mr, lkey, rkey);

	EQUAL(ibv_free_dm(dm), EBUSY);
	registered++;
	return err;
}

int main(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_context *ctx = open_loopback();
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	MUST(pd = ibv_alloc_pd(ctx));
	MUST(dm = ibv_alloc_dm(ctx, &attr));
	engine = vb_pd_of(pd)->engine;
	watched = *engine;
	watched.mr_reg = mr_reg;
	vb_pd_of(pd)->engine = &watched;
	MUST(mr = ibv_reg_dm_mr(pd, dm, 0, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	EQUAL(ibv_free_dm(dm), EBUSY);
	EQUAL(ibv_dereg_mr(mr), 0);
	/* A registration that fails leaves the memory free. */
	REFUSED(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED), EINVAL);
	EQUAL(registered, 2);
	vb_pd_of(pd)->engine = engine;
	EQUAL(ibv_free_dm(dm), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	return finish(ctx);
}
