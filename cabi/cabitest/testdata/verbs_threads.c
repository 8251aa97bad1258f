/* SPDX-License-Identifier: BSD-2-Clause */
/* Many threads post on one queue pair and poll one completion queue while others are made and destroyed. */
#include "loop.h"

#include <pthread.h>

#define POSTERS 3
#define POLLERS 3
#define EACH 2000
#define CHURN 60
#define TOTAL (POSTERS * EACH)

static struct ibv_context *ctx;
static struct end a, b;
static int posted, completed, stop;
static unsigned char seen[TOTAL];

static void *post(void *arg)
{
	uint64_t first = (uintptr_t)arg * EACH;

	for (uint64_t i = 0; i < EACH; i++) {
		int err;

		/* No more than the queue pair and the completion queue have room for. */
		while (__atomic_add_fetch(&posted, 1, __ATOMIC_RELAXED) -
			       __atomic_load_n(&completed, __ATOMIC_RELAXED) > DEPTH &&
		       !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
			__atomic_sub_fetch(&posted, 1, __ATOMIC_RELAXED);
			sched_yield();
		}
		err = post_rdma(&a, IBV_WR_RDMA_WRITE, first + i, 64, (uintptr_t)b.buf, b.mr->rkey);
		if (err) {
			failed(__FILE__, __LINE__, "post: %d", err);
			break;
		}
	}
	return NULL;
}

static void *poll_all(void *arg)
{
	struct ibv_wc wc[7];

	(void)arg;
	while (__atomic_load_n(&completed, __ATOMIC_RELAXED) < TOTAL && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int n = ibv_poll_cq(a.cq, 7, wc);

		if (n < 0) {
			failed(__FILE__, __LINE__, "poll: %d", n);
			break;
		}
		for (int i = 0; i < n; i++) {
			if (wc[i].status || wc[i].wr_id >= TOTAL || wc[i].qp_num != a.qp->qp_num)
				failed(__FILE__, __LINE__, "completion %lld: %s", (long long)wc[i].wr_id,
				       ibv_wc_status_str(wc[i].status));
			else if (__atomic_fetch_add(&seen[wc[i].wr_id], 1, __ATOMIC_RELAXED))
				failed(__FILE__, __LINE__, "completion %lld came twice", (long long)wc[i].wr_id);
		}
		__atomic_add_fetch(&completed, n, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Queue pairs on the polled queue that come and go, and its size. */
static void *churn(void *arg)
{
	struct end c = a;

	(void)arg;
	for (int i = 0; i < CHURN; i++) {
		end_qp(&c, i & 1 ? IBV_QPT_UD : IBV_QPT_RC);
		EQUAL(ibv_resize_cq(a.cq, i & 1 ? 2 * DEPTH : 4 * DEPTH), 0);
		EQUAL(ibv_destroy_qp(c.qp), 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[POSTERS + POLLERS + 1];
	long long end = now_ms() + 4 * PATIENCE_MS;
	int n = 0;

	ctx = open_loopback();
	pair(&a, &b, ctx, IBV_QPT_RC);
	for (uintptr_t i = 0; i < POSTERS; i++)
		MUST(pthread_create(&t[n++], NULL, post, (void *)i) == 0);
	for (int i = 0; i < POLLERS; i++)
		MUST(pthread_create(&t[n++], NULL, poll_all, NULL) == 0);
	MUST(pthread_create(&t[n++], NULL, churn, NULL) == 0);
	while (__atomic_load_n(&completed, __ATOMIC_RELAXED) < TOTAL && now_ms() < end)
		poll(NULL, 0, 10);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	EQUAL(posted, TOTAL);
	EQUAL(completed, TOTAL);
	unpair(&a, &b);
	return finish(ctx);
}
