/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory that the application unmaps: work requests that need it fail,
 * other queue pairs and the process go on.
 */
#include "harness.h"

static vb_handle ctx, pd;
static struct cq *ca, *cb;
static struct qp a, b;
static char memory[65536];
static struct mr m;

static void pair(void)
{
	a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 3);
	b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 4);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
}

static void unpair(void)
{
	CALL(0, e->qp_destroy(a.handle));
	CALL(0, e->qp_destroy(b.handle));
}

static void post(enum ibv_wr_opcode op, struct mr *local, void *from, uint32_t length, void *to, struct mr *remote, int flags)
{
	struct ibv_sge s = {(uintptr_t)from, length, local->lkey};
	struct ibv_send_wr w = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED | flags}, *bad;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		w.wr.atomic.remote_addr = (uintptr_t)to;
		w.wr.atomic.rkey = remote->rkey;
	} else {
		w.wr.rdma.remote_addr = (uintptr_t)to;
		w.wr.rdma.rkey = remote->rkey;
	}
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
}

/* Takes memory away, and keeps others from getting its addresses. */
static void unmap(void *p, size_t n)
{
	CHECK(mmap(p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
}

/* A fresh region of n bytes, and then none behind it. */
static void *vanish(struct mr *r, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	*r = new_mr(pd, p, n);
	unmap(p, n);
	return p;
}

int main(int argc, char **argv)
{
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	ca = new_cq(ctx, 64, 0, 1);
	cb = new_cq(ctx, 64, 0, 2);
	m = new_mr(pd, memory, sizeof memory);
	uint32_t sizes[] = {8, 600, 20000}; /* copied, pointed at, a burst */
	for (int i = 0; i < 3; i++) {
		uint32_t n = sizes[i];
		struct mr gone;
		void *p;

		/* The source is gone. */
		p = vanish(&gone, 65536);
		pair();
		post_recv(b, 2, memory, 32768, m.lkey);
		post(IBV_WR_SEND, &gone, p, n, NULL, &m, 0);
		WANT_WC(ca, 1, IBV_WC_LOC_PROT_ERR, 0);
		unpair();
		pair();
		post(IBV_WR_RDMA_WRITE, &gone, p, n, memory, &m, 0);
		WANT_WC(ca, 1, IBV_WC_LOC_PROT_ERR, 0);
		unpair();

		/* The target is gone. */
		pair();
		post(IBV_WR_RDMA_WRITE, &m, memory, n, p, &gone, 0);
		WANT_WC(ca, 1, IBV_WC_REM_ACCESS_ERR, 0);
		unpair();
		pair();
		post(IBV_WR_RDMA_READ, &m, memory, n, p, &gone, 0);
		struct vb_wc wc = want_wc(ca, __LINE__);
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_OP_ERR);
		unpair();

		/* The memory that a READ or a receive fills is gone. */
		pair();
		post(IBV_WR_RDMA_READ, &gone, p, n, memory, &m, 0);
		WANT_WC(ca, 1, IBV_WC_LOC_PROT_ERR, 0);
		unpair();
		pair();
		post_recv(b, 2, p, 65536, gone.lkey);
		post(IBV_WR_SEND, &m, memory, n, NULL, &m, 0);
		WANT_WC(cb, 2, IBV_WC_LOC_PROT_ERR, 0);
		WANT_WC(ca, 1, IBV_WC_REM_OP_ERR, 0);
		unpair();

		/* Atomics. */
		pair();
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, &m, memory, 8, p, &gone, 0);
		WANT_WC(ca, 1, IBV_WC_REM_ACCESS_ERR, 0);
		unpair();
		pair();
		post(IBV_WR_ATOMIC_CMP_AND_SWP, &gone, p, 8, memory, &m, 0);
		WANT_WC(ca, 1, IBV_WC_LOC_PROT_ERR, 0);
		unpair();
		CALL(0, e->mr_dereg(gone.handle));
	}

	/* Inline data that is not there, also where no processor could look. */
	pair();
	void *holes[] = {(void *)0x10, (void *)0xdead0000beef0000};
	for (int i = 0; i < 2; i++) {
		struct ibv_sge s = {(uintptr_t)holes[i], 8, 0};
		struct ibv_send_wr w = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}, *bad = NULL;
		CALL(EFAULT, e->qp_post_send(a.handle, &w, &bad));
		CHECK(bad == &w);
	}

	/* Unmapped while it is being sent: an error or all of it, and a process that lives. */
	for (int i = 0; i < 50; i++) {
		struct mr r;
		size_t n = 1 << 20;
		char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED);
		r = new_mr(pd, p, n);
		unpair();
		pair();
		post(IBV_WR_RDMA_WRITE, &r, p, 60000, memory, &m, 0);
		unmap(p, n);
		struct vb_wc wc = want_wc(ca, __LINE__);
		CHECK(wc.status == 0 || wc.status == IBV_WC_LOC_PROT_ERR);
		CALL(0, e->mr_dereg(r.handle));
	}

	/* Mapped memory is all right. */
	unpair();
	pair();
	strcpy(memory, "still here");
	post(IBV_WR_RDMA_WRITE, &m, memory, 11, memory + 100, &m, 0);
	WANT_WC(ca, 1, 0, OP_WRITE);
	CHECK(!strcmp(memory + 100, "still here"));
	CALL(0, e->ctx_close(ctx));
	printf("ok\n");
	return 0;
}
