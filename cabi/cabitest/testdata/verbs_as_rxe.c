/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that devices judge differently, each with its result here. Run over rdma_rxe
 * (LOOP_DEVICE=rxe0) it expects the kernel driver's results: where they differ there are two
 * values.
 */
#include "loop.h"

#include <unistd.h>

static struct ibv_context *ctx;
static int over_rxe;

static const char *word(int err, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (err)
		return strerror(err);
	return wait_wc(cq, &wc) == 1 ? ibv_wc_status_str(wc.status) : "nothing";
}

static const char success[] = "success", invalid[] = "Invalid argument", inside[] = "local protection error",
		  remote[] = "remote invalid request error", length[] = "local length error";

static void expect(const char *what, const char *got, const char *ours, const char *rxe)
{
	const char *want = over_rxe ? rxe : ours;

	if (strcmp(got, want))
		failed(__FILE__, __LINE__, "%s: %s, want %s", what, got, want);
}

/* -- memory windows -------------------------------------------------------------- */

/* Only the low 8 bits of the key that a bind asks for count. */
static void window(uint32_t others)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct end a, b;
	struct ibv_mw *mw;
	uint32_t key;

	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2));
	key = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = key ^ others;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = b.mr, .addr = (uintptr_t)b.buf, .length = 32, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	expect("bind of a type 2 window", word(ibv_post_send(b.qp, &wr, &bad), b.cq), success, success);
	expect("WRITE by the window's key", word(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 32, (uintptr_t)b.buf, key), a.cq), success,
	       success);
	if (others)
		expect("WRITE by the key asked for",
		       word(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 32, (uintptr_t)b.buf, wr.bind_mw.rkey), a.cq),
		       "remote access error", "remote access error");
	EQUAL(ibv_dealloc_mw(mw), 0);
	unpair(&a, &b);
}

/* -- shared receive queues --------------------------------------------------------- */

/* The queue's domain is another than the queue pair's. NICs look at the one, rxe at the other. */
static void shared(enum ibv_qp_type type, int by_queue)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr_ex init;
	struct ibv_recv_wr recv = {.num_sge = 1}, *bad_recv;
	struct ibv_ah_attr to = address(ctx);
	struct ibv_ah *ah = NULL;
	struct ibv_sge sge;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	MUST(pd = ibv_alloc_pd(ctx));
	MUST(srq = ibv_create_srq(pd, &attr));
	MUST(mr = ibv_reg_mr(pd, b.buf, BYTES, IBV_ACCESS_LOCAL_WRITE));
	end_qp(&a, type);
	init = end_init(&b, type);
	init.srq = srq;
	MUST(b.qp = ibv_create_qp_ex(ctx, &init));
	connect_qps(a.qp, b.qp);
	sge = (struct ibv_sge){.addr = (uintptr_t)b.buf, .length = 100, .lkey = by_queue ? mr->lkey : b.mr->lkey};
	recv.sg_list = &sge;
	EQUAL(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	if (type == IBV_QPT_UD) {
		struct ibv_sge from = {.addr = (uintptr_t)a.buf, .length = 8, .lkey = a.mr->lkey};
		struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

		MUST(ah = ibv_create_ah(a.pd, &to));
		send.wr.ud.ah = ah;
		send.wr.ud.remote_qpn = b.qp->qp_num;
		send.wr.ud.remote_qkey = QKEY;
		EQUAL(ibv_post_send(a.qp, &send, &bad), 0);
	} else {
		EQUAL(post_send(&a, 1, 0, 8), 0);
	}
	expect(by_queue ? "receive by the shared queue's domain" : "receive by the queue pair's domain", word(0, b.cq),
	       by_queue ? success : inside, by_queue ? "local QP operation error" : success);
	if (ah)
		EQUAL(ibv_destroy_ah(ah), 0);
	EQUAL(ibv_destroy_qp(b.qp), 0);
	b.qp = NULL;
	EQUAL(ibv_destroy_srq(srq), 0);
	EQUAL(ibv_dereg_mr(mr), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	unpair(&a, &b);
}

/* -- atomics ----------------------------------------------------------------------- */

struct atomic {
	const char *what;
	enum ibv_wr_opcode opcode;
	int offset, bytes; /* of the word there, of the memory here */
	const char *ours;
	const char *rxe_post, *rxe_wr; /* its ibv_post_send refuses some, its ibv_wr_… none */
};

static const struct atomic atomics[] = {
	{"FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, success, success, success},
	{"FETCH_AND_ADD, not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, remote, invalid, remote},
	{"CMP_AND_SWP, not aligned", IBV_WR_ATOMIC_CMP_AND_SWP, 1, 8, remote, invalid, remote},
	{"FETCH_AND_ADD into no bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, length, invalid, inside},
	{"FETCH_AND_ADD into 4 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4, length, invalid, inside},
	{"CMP_AND_SWP into 12 bytes", IBV_WR_ATOMIC_CMP_AND_SWP, 0, 12, length, success, success},
	{"FETCH_AND_ADD into 16 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 16, length, success, success},
};

static int post_atomic(struct end *a, struct end *b, const struct atomic *t)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a->buf, .length = (uint32_t)t->bytes, .lkey = a->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = t->opcode, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.atomic.remote_addr = (uintptr_t)b->buf + (size_t)t->offset;
	wr.wr.atomic.rkey = b->mr->rkey;
	return ibv_post_send(a->qp, &wr, &bad);
}

static int build_atomic(struct end *a, struct end *b, const struct atomic *t)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(a->qp);
	uint64_t there = (uintptr_t)b->buf + (size_t)t->offset;

	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	if (t->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ibv_wr_atomic_fetch_add(qpx, b->mr->rkey, there, 0);
	else
		ibv_wr_atomic_cmp_swp(qpx, b->mr->rkey, there, 0, 0);
	ibv_wr_set_sge(qpx, a->mr->lkey, (uintptr_t)a->buf, (uint32_t)t->bytes);
	return ibv_wr_complete(qpx);
}

static void atomic(const struct atomic *t, int build)
{
	struct ibv_qp_init_attr_ex init;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	init = end_init(&a, IBV_QPT_RC);
	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	MUST(a.qp = ibv_create_qp_ex(ctx, &init));
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	memset(a.buf, 'x', 16);
	if (build)
		expect(t->what, word(build_atomic(&a, &b, t), a.cq), t->ours, t->rxe_wr);
	else
		expect(t->what, word(post_atomic(&a, &b, t), a.cq), t->ours, t->rxe_post);
	CHECK(a.buf[8] == 'x'); /* a word is of 8 bytes, whatever there is room for */
	unpair(&a, &b);
}

/* -- address handles ----------------------------------------------------------------- */

static void foreign_address_handle(void)
{
	struct ibv_ah_attr attr = address(ctx);
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_UD);
	MUST(pd = ibv_alloc_pd(ctx));
	MUST(ah = ibv_create_ah(pd, &attr));
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 8, .lkey = a.mr->lkey};
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	expect("address handle of another domain", word(ibv_post_send(a.qp, &wr, &bad), a.cq), "local QP operation error",
	       "Work Request Flushed Error");
	EQUAL(ibv_destroy_ah(ah), 0);
	EQUAL(ibv_dealloc_pd(pd), 0);
	unpair(&a, &b);
}

/* -- regions of no bytes --------------------------------------------------------------- */

static void no_bytes(void)
{
	struct ibv_mr *here, *there;
	struct end a, b;

	pair(&a, &b, ctx, IBV_QPT_RC);
	/* They are in no page. */
	REFUSED(ibv_reg_mr(b.pd, b.buf, 0, ALL_ACCESS), EINVAL);
	REFUSED(ibv_reg_mr(b.pd, NULL, 0, ALL_ACCESS), EINVAL);

	MUST(there = ibv_reg_mr(b.pd, b.buf + 5, 0, ALL_ACCESS));
	MUST(here = ibv_reg_mr(a.pd, a.buf + 5, 0, ALL_ACCESS));
	EQUAL(there->length, 0);
	CHECK(there->addr == b.buf + 5);
	struct ibv_sge sge = {.addr = (uintptr_t)a.buf + 5, .length = 0, .lkey = here->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	EQUAL(post_recv(&b, 1, 0, 8), 0);
	expect("SEND of no bytes", word(ibv_post_send(a.qp, &wr, &bad), a.cq), success, success);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	expect("WRITE of no bytes", word(post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, (uintptr_t)b.buf + 5, there->rkey), a.cq), success,
	       success);
	expect("WRITE of one byte", word(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 1, (uintptr_t)b.buf + 5, there->rkey), a.cq),
	       "remote access error", "remote access error");
	EQUAL(ibv_dereg_mr(here), 0);
	EQUAL(ibv_dereg_mr(there), 0);
	unpair(&a, &b);
}

/* -- path MTU ---------------------------------------------------------------------------- */

static void to_rtr_with(struct ibv_qp *qp, uint32_t peer, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer, .rq_psn = PSN, .min_rnr_timer = 1};

	attr.ah_attr = address(ctx);
	EQUAL(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	      0);
}

/* A path MTU is taken up to the port's largest, and holds between queue pairs of a host. */
static void path_mtu(int active)
{
	struct ibv_port_attr port;
	struct end a, b;

	EQUAL(ibv_query_port(ctx, PORT, &port), 0);
	EQUAL(128 << port.active_mtu, active);
	EQUAL(port.max_mtu, IBV_MTU_4096);
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	end_qp(&a, IBV_QPT_RC);
	end_qp(&b, IBV_QPT_RC);
	to_init(a.qp);
	to_init(b.qp);
	to_rtr_with(a.qp, b.qp->qp_num, IBV_MTU_4096);
	to_rtr_with(b.qp, a.qp->qp_num, IBV_MTU_4096);
	to_rts(a.qp);
	to_rts(b.qp);
	for (uint32_t bytes = 1000; bytes <= 16000; bytes *= 4) {
		memset(a.buf, 'm', bytes);
		EQUAL(post_recv(&b, 1, 0, BYTES), 0);
		expect("SEND", word(post_send(&a, 2, 0, bytes), a.cq), success, success);
		WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
		CHECK(!memcmp(a.buf, b.buf, bytes));
	}
	unpair(&a, &b);
}

/* ---------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	struct ibv_device_attr dev;

	over_rxe = !strncmp(otherwise("LOOP_DEVICE", "roce_lo"), "rxe", 3);
	ctx = open_loopback();
	EQUAL(ibv_query_device(ctx, &dev), 0);
	EQUAL(dev.atomic_cap, IBV_ATOMIC_HCA);
	window(0);
	window(0x5a5a5a00);
	for (int by_queue = 0; by_queue <= 1; by_queue++) {
		shared(IBV_QPT_RC, by_queue);
		shared(IBV_QPT_UD, by_queue);
	}
	for (size_t i = 0; i < sizeof(atomics) / sizeof(atomics[0]); i++) {
		atomic(&atomics[i], 0);
		atomic(&atomics[i], 1);
	}
	foreign_address_handle();
	no_bytes();
	path_mtu(argc > 1 ? atoi(argv[1]) : 4096);
	return finish(ctx);
}
