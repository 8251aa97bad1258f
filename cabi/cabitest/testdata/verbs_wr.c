/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_wr_post(3): every builder and setter, the errors of a batch, one batch at a time. */
#include "loop.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stddef.h>

/* ibv_qp_ex of rdma-core 64 has wr_flush behind wr_atomic_write. */
typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
#define QP_EX_WITH_FLUSH (1 << 11)
#define FLUSH_GLOBAL_VISIBILITY 1
#define FLUSH_RANGE 0
#define WC_FLUSH 8
#define ACCESS_FLUSH_GLOBAL (1 << 8)

#define ALL_OPS                                                                                                        \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |                        \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                 \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |                     \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH)

static struct ibv_qp_ex *qp_with(struct end *e, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = end_init(e, type);
	struct ibv_qp_ex *qpx;

	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = ops;
	MUST(e->qp = ibv_create_qp_ex(e->ctx, &init));
	MUST(qpx = ibv_qp_to_qp_ex(e->qp));
	return qpx;
}

static void next(struct ibv_qp_ex *qpx, uint64_t id)
{
	qpx->wr_id = id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
}

static void sge(struct ibv_qp_ex *qpx, struct end *e, size_t offset, uint32_t length)
{
	ibv_wr_set_sge(qpx, e->mr->lkey, (uintptr_t)e->buf + offset, length);
}

static void transfers(struct end *a, struct end *b, struct ibv_qp_ex *qpx)
{
	struct ibv_sge list[2] = {{(uintptr_t)a->buf, 3, a->mr->lkey}, {(uintptr_t)a->buf + 100, 4, a->mr->lkey}};
	struct ibv_data_buf bufs[2] = {{"in", 2}, {"line", 5}};
	uint64_t remote = (uintptr_t)b->buf;
	char one[] = "one";
	struct ibv_wc wc;

	memcpy(a->buf, "abc", 3);
	memcpy(a->buf + 100, "def", 4);
	for (int i = 0; i < 4; i++)
		EQUAL(post_recv(b, 100 + i, 1000, 1000), 0);
	ibv_wr_start(qpx);
	next(qpx, 1);
	ibv_wr_rdma_write(qpx, b->mr->rkey, remote);
	ibv_wr_set_sge_list(qpx, 2, list);
	next(qpx, 2);
	ibv_wr_rdma_write(qpx, b->mr->rkey, remote + 10);
	ibv_wr_set_inline_data_list(qpx, 2, bufs);
	next(qpx, 3);
	ibv_wr_rdma_write(qpx, b->mr->rkey, remote + 20);
	ibv_wr_set_inline_data(qpx, one, sizeof(one));
	memset(one, 0, sizeof(one)); /* it was copied */
	next(qpx, 4);
	ibv_wr_rdma_write_imm(qpx, b->mr->rkey, remote + 30, htonl(44));
	sge(qpx, a, 0, 3);
	next(qpx, 5);
	ibv_wr_rdma_read(qpx, b->mr->rkey, remote);
	sge(qpx, a, 200, 7);
	next(qpx, 6);
	ibv_wr_send(qpx);
	sge(qpx, a, 0, 3);
	next(qpx, 7);
	ibv_wr_send_imm(qpx, htonl(77));
	EQUAL(ibv_wr_complete(qpx), 0);
	for (int i = 1; i <= 7; i++)
		WANT_WC(a->cq, i, IBV_WC_SUCCESS);
	CHECK(!memcmp(b->buf, "abcdef", 7) && !strcmp(b->buf + 10, "inline") && !strcmp(b->buf + 20, "one"));
	CHECK(!memcmp(b->buf + 30, "abc", 3) && !memcmp(a->buf + 200, "abcdef", 7));
	MUST(wait_wc(b->cq, &wc) == 1);
	EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EQUAL(ntohl(wc.imm_data), 44);
	MUST(wait_wc(b->cq, &wc) == 1);
	EQUAL(wc.byte_len, 3);
	MUST(wait_wc(b->cq, &wc) == 1);
	EQUAL(ntohl(wc.imm_data), 77);
	EQUAL(wc.byte_len, 0);
	ibv_wr_start(qpx);
	next(qpx, 8);
	ibv_wr_send(qpx);
	EQUAL(ibv_wr_complete(qpx), 0);
	WANT_WC(a->cq, 8, IBV_WC_SUCCESS);
	WANT_WC(b->cq, 103, IBV_WC_SUCCESS);
}

static void atomics(struct end *a, struct end *b, struct ibv_qp_ex *qpx)
{
	flush_fn flush;
	uint64_t remote = (uintptr_t)b->buf, word = 5, stored = 0x1122334455667788;
	struct ibv_wc wc;

	memcpy(b->buf, &word, 8);
	ibv_wr_start(qpx);
	next(qpx, 10);
	ibv_wr_atomic_fetch_add(qpx, b->mr->rkey, remote, 3);
	sge(qpx, a, 0, 8);
	next(qpx, 11);
	ibv_wr_atomic_cmp_swp(qpx, b->mr->rkey, remote, 8, 100);
	sge(qpx, a, 8, 8);
	next(qpx, 12);
	ibv_wr_atomic_write(qpx, b->mr->rkey, remote + 8, &stored);
	EQUAL(ibv_wr_complete(qpx), 0);
	WANT_WC(a->cq, 10, IBV_WC_SUCCESS);
	WANT_WC(a->cq, 11, IBV_WC_SUCCESS);
	MUST(wait_wc(a->cq, &wc) == 1);
	EQUAL(wc.status, IBV_WC_SUCCESS);
	EQUAL(wc.opcode, IBV_WC_ATOMIC_WRITE);
	memcpy(&word, a->buf, 8);
	EQUAL(word, 5);
	memcpy(&word, a->buf + 8, 8);
	EQUAL(word, 8);
	memcpy(&word, b->buf, 8);
	EQUAL(word, 100);
	memcpy(&word, b->buf + 8, 8);
	EQUAL(word, stored);

	/* On-demand memory, too: the device says so for both operations. */
	memcpy(&flush, qpx + 1, sizeof(flush));
	MUST(flush);
	for (int access = ALL_ACCESS | ACCESS_FLUSH_GLOBAL; access; access = access & IBV_ACCESS_ON_DEMAND ? 0 : access | IBV_ACCESS_ON_DEMAND) {
		struct ibv_mr *mr = ibv_reg_mr_iova2(b->pd, b->buf, 4096, remote, (unsigned)access);

		MUST(mr);
		stored++;
		ibv_wr_start(qpx);
		next(qpx, 13);
		ibv_wr_atomic_write(qpx, mr->rkey, remote + 16, &stored);
		next(qpx, 14);
		flush(qpx, mr->rkey, remote, 64, FLUSH_GLOBAL_VISIBILITY, FLUSH_RANGE);
		EQUAL(ibv_wr_complete(qpx), 0);
		WANT_WC(a->cq, 13, IBV_WC_SUCCESS);
		MUST(wait_wc(a->cq, &wc) == 1);
		EQUAL(wc.wr_id, 14);
		EQUAL(wc.status, IBV_WC_SUCCESS);
		EQUAL(wc.opcode, WC_FLUSH);
		memcpy(&word, b->buf + 16, 8);
		EQUAL(word, stored);
		EQUAL(ibv_dereg_mr(mr), 0);
	}
	struct ibv_device_attr_ex attr;
	const unsigned both = 1 << 6 | 1 << 7; /* IBV_ODP_SUPPORT_FLUSH and _ATOMIC_WRITE of rdma-core 65 */

	MUST(!ibv_query_device_ex(a->qp->context, NULL, &attr));
	EQUAL(attr.odp_caps.per_transport_caps.rc_odp_caps & both, both);
	EQUAL(attr.xrc_odp_caps & both, both);
}

static void windows(struct end *a, struct end *b, struct ibv_qp_ex *qpx)
{
	struct ibv_mw *mw = ibv_alloc_mw(a->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {.mr = a->mr, .addr = (uintptr_t)a->buf, .length = 64,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	uint32_t key;

	MUST(mw);
	key = ibv_inc_rkey(mw->rkey);
	EQUAL(post_recv(b, 20, 0, 8), 0);
	ibv_wr_start(qpx);
	next(qpx, 21);
	ibv_wr_bind_mw(qpx, mw, key, &info);
	next(qpx, 22);
	ibv_wr_local_inv(qpx, key);
	next(qpx, 23);
	ibv_wr_send_inv(qpx, 0x12345678); /* no such key at the peer */
	EQUAL(ibv_wr_complete(qpx), 0);
	WANT_WC(a->cq, 21, IBV_WC_SUCCESS);
	WANT_WC(a->cq, 22, IBV_WC_SUCCESS);
	MUST(ibv_dealloc_mw(mw) == 0);
	struct ibv_wc wc;

	MUST(wait_wc(a->cq, &wc) == 1);
	EQUAL(wc.wr_id, 23);
	CHECK(wc.status != IBV_WC_SUCCESS);
}

static void refusals(struct end *a, struct end *b, struct ibv_qp_ex *qpx)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	char big[4096] = "";
	struct ibv_wc wc;

	memset(b->buf, 0, 8);
	memset(a->buf, 'x', 8);
	ibv_wr_start(qpx);
	next(qpx, 30);
	ibv_wr_rdma_write(qpx, b->mr->rkey, (uintptr_t)b->buf);
	sge(qpx, a, 0, 8);
	next(qpx, 31);
	ibv_wr_rdma_write(qpx, b->mr->rkey, (uintptr_t)b->buf);
	ibv_wr_set_inline_data(qpx, big, sizeof(big)); /* more than the queue pair takes */
	next(qpx, 32);
	ibv_wr_rdma_write(qpx, b->mr->rkey, (uintptr_t)b->buf);
	EQUAL(ibv_wr_complete(qpx), EINVAL);

	ibv_wr_start(qpx);
	next(qpx, 33);
	ibv_wr_send_tso(qpx, big, 40, 1000);
	EQUAL(ibv_wr_complete(qpx), EOPNOTSUPP);

	ibv_wr_start(qpx);
	ibv_wr_set_sge(qpx, 0, 0, 0); /* of nothing */
	EQUAL(ibv_wr_complete(qpx), EINVAL);

	ibv_wr_start(qpx);
	next(qpx, 34);
	ibv_wr_send(qpx);
	ibv_wr_set_ud_addr(qpx, NULL, 1, 2); /* RC has no such address */
	EQUAL(ibv_wr_complete(qpx), EINVAL);

	ibv_wr_start(qpx);
	for (int i = 0; i < 100000; i++)
		ibv_wr_send(qpx);
	EQUAL(ibv_wr_complete(qpx), ENOMEM);

	ibv_wr_start(qpx);
	next(qpx, 35);
	ibv_wr_rdma_write(qpx, b->mr->rkey, (uintptr_t)b->buf);
	sge(qpx, a, 0, 8);
	ibv_wr_abort(qpx);

	ibv_wr_start(qpx);
	EQUAL(ibv_wr_complete(qpx), 0); /* of nothing */

	/* None of it was posted: the next request comes first. */
	next(qpx, 36);
	ibv_wr_start(qpx);
	ibv_wr_rdma_read(qpx, b->mr->rkey, (uintptr_t)b->buf);
	sge(qpx, a, 100, 8);
	EQUAL(ibv_wr_complete(qpx), 0);
	WANT_WC(a->cq, 36, IBV_WC_SUCCESS);
	EQUAL(a->buf[100], 0);
	EQUAL(ibv_poll_cq(a->cq, 1, &wc), 0);
	(void)wr;
}

/* Operations that were not asked for, or that a service lacks. */
static void undeclared(struct ibv_context *ctx)
{
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp_ex *qpx;
	struct end e;

	end_open(&e, ctx, NULL);
	qpx = qp_with(&e, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	ibv_wr_start(qpx);
	ibv_wr_rdma_write(qpx, 1, 2);
	EQUAL(ibv_wr_complete(qpx), EINVAL);
	ibv_wr_start(qpx);
	ibv_wr_atomic_write(qpx, 1, 2, &e);
	EQUAL(ibv_wr_complete(qpx), EINVAL);
	EQUAL(ibv_destroy_qp(e.qp), 0);

	init = end_init(&e, IBV_QPT_UD);
	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	init.send_ops_flags = IBV_QP_EX_WITH_TSO;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);

	/* One made without has none of it. */
	end_qp(&e, IBV_QPT_RC);
	CHECK(ibv_qp_to_qp_ex(e.qp) == NULL);

	/* An atomic write needs room that nobody asked for. */
	EQUAL(ibv_destroy_qp(e.qp), 0);
	init.cap.max_inline_data = 0;
	init.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
	MUST(e.qp = ibv_create_qp_ex(ctx, &init));
	CHECK(init.cap.max_inline_data >= 8);
	end_close(&e, 1);
}

/* pyverbs calls functions of operations that it did not ask for: they are there, and refuse. */
static void no_function_is_null(struct ibv_context *ctx)
{
	struct ibv_qp_ex *qpx;
	struct end e;

	end_open(&e, ctx, NULL);
	qpx = qp_with(&e, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	for (size_t at = offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp); at < sizeof(*qpx); at += sizeof(void *))
		if (*(void **)((char *)qpx + at) == NULL)
			failed(__FILE__, __LINE__, "the function at offset %zu is NULL", at);
	ibv_wr_start(qpx);
	ibv_wr_atomic_write(qpx, 1, 2, "01234567");
	EQUAL(ibv_wr_complete(qpx), EINVAL);
	end_close(&e, 1);
}

static void datagrams(struct ibv_context *ctx)
{
	struct ibv_ah_attr attr = address(ctx);
	struct ibv_qp_ex *qpx;
	struct ibv_ah *ah;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	qpx = qp_with(&a, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	end_qp(&b, IBV_QPT_UD);
	connect_qps(a.qp, b.qp);
	MUST(ah = ibv_create_ah(a.pd, &attr));
	EQUAL(post_recv(&b, 1, 0, 200), 0);
	EQUAL(post_recv(&b, 2, 200, 200), 0);
	strcpy(a.buf, "datagram");
	ibv_wr_start(qpx);
	next(qpx, 3);
	ibv_wr_send(qpx);
	ibv_wr_set_ud_addr(qpx, ah, b.qp->qp_num, QKEY);
	sge(qpx, &a, 0, 9);
	next(qpx, 4);
	ibv_wr_send_imm(qpx, 5);
	ibv_wr_set_inline_data(qpx, "inline", 7);
	ibv_wr_set_ud_addr(qpx, ah, b.qp->qp_num, QKEY);
	EQUAL(ibv_wr_complete(qpx), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 4, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 40, "datagram") && !strcmp(b.buf + 240, "inline"));
	ibv_wr_start(qpx);
	ibv_wr_send(qpx); /* to nobody */
	EQUAL(ibv_wr_complete(qpx), EINVAL);
	EQUAL(ibv_destroy_ah(ah), 0);
	unpair(&a, &b);
}

/* Between wr_start and wr_complete no other thread comes in. */
#define THREADS 4
#define ROUNDS 200

static struct end writer;
static uint32_t rkey;
static uint64_t target;
static int inside;

static void *batches(void *arg)
{
	struct ibv_qp_ex *qpx = arg;

	for (int i = 0; i < ROUNDS; i++) {
		ibv_wr_start(qpx);
		CHECK(__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) == 1);
		for (int j = 0; j < 2; j++) {
			next(qpx, 50);
			ibv_wr_atomic_fetch_add(qpx, rkey, target, 1);
			sge(qpx, &writer, 0, 8);
		}
		__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
		if (i & 1) {
			ibv_wr_abort(qpx);
			continue;
		}
		for (;;) {
			struct ibv_wc wc[4];
			int err = ibv_wr_complete(qpx);

			if (!err)
				break;
			EQUAL(err, ENOMEM); /* full */
			failed(__FILE__, __LINE__, "a batch that the queue has room for was refused");
			(void)wc;
			return NULL;
		}
		WANT_WC(writer.cq, 50, IBV_WC_SUCCESS);
		WANT_WC(writer.cq, 50, IBV_WC_SUCCESS);
	}
	return NULL;
}

static void threads(struct ibv_context *ctx)
{
	pthread_t t[THREADS];
	struct ibv_qp_ex *qpx;
	uint64_t sum;
	struct end b;

	end_open(&writer, ctx, NULL);
	end_open(&b, ctx, NULL);
	qpx = qp_with(&writer, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(writer.qp, b.qp);
	rkey = b.mr->rkey;
	target = (uintptr_t)b.buf;
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_create(&t[i], NULL, batches, qpx) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	memcpy(&sum, b.buf, 8);
	EQUAL(sum, THREADS * ROUNDS); /* half of the batches, two in each */
	unpair(&writer, &b);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_qp_ex *qpx;
	struct end a, b;

	end_open(&a, ctx, NULL);
	end_open(&b, ctx, NULL);
	qpx = qp_with(&a, IBV_QPT_RC, ALL_OPS);
	end_qp(&b, IBV_QPT_RC);
	connect_qps(a.qp, b.qp);
	struct ibv_qp_attr flags = {.qp_access_flags = ALL_ACCESS | ACCESS_FLUSH_GLOBAL};

	EQUAL(ibv_modify_qp(b.qp, &flags, IBV_QP_ACCESS_FLAGS), 0);
	transfers(&a, &b, qpx);
	atomics(&a, &b, qpx);
	refusals(&a, &b, qpx);
	windows(&a, &b, qpx);
	unpair(&a, &b);
	undeclared(ctx);
	no_function_is_null(ctx);
	datagrams(ctx);
	threads(ctx);
	return finish(ctx);
}
