/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends on the loopback device, or on the one that LOOP_DEVICE names and its address
 * LOOP_ADDRESS, and a program's report of a failure.
 */
#ifndef LOOP_H
#define LOOP_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* -- reporting a failure ------------------------------------------------------ */

static int failures;

__attribute__((format(printf, 3, 4), unused)) static void failed(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	failures++;
}

/* The condition holds, or the program goes on and fails at its end. */
#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			failed(__FILE__, __LINE__, "%s does not hold (errno %d: %s)", #cond, errno, strerror(errno));  \
	} while (0)

/* The condition holds, or the program ends. */
#define MUST(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			failed(__FILE__, __LINE__, "%s does not hold (errno %d: %s)", #cond, errno, strerror(errno));  \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

/* The two numbers are equal. */
#define EQUAL(got, want)                                                                                               \
	do {                                                                                                           \
		long long got_ = (long long)(got), want_ = (long long)(want);                                          \
		if (got_ != want_)                                                                                     \
			failed(__FILE__, __LINE__, "%s is %lld, want %lld", #got, got_, want_);                        \
	} while (0)

/* The expression, which makes an object, is NULL with errno. */
#define REFUSED(expr, want)                                                                                            \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		if ((expr) != NULL)                                                                                    \
			failed(__FILE__, __LINE__, "%s is not refused", #expr);                                        \
		else if (errno != (want))                                                                              \
			failed(__FILE__, __LINE__, "%s: errno %d (%s), want %d (%s)", #expr, errno, strerror(errno),   \
			       (want), strerror(want));                                                                \
	} while (0)

/* -- time ---------------------------------------------------------------------- */

#define PATIENCE_MS 30000

static inline long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* -- the device ---------------------------------------------------------------- */

#define PORT 1

static const char *otherwise(const char *variable, const char *usual)
{
	const char *value = getenv(variable);

	return value ? value : usual;
}

__attribute__((unused)) static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	MUST(ctx);
	return ctx;
}

__attribute__((unused)) static struct ibv_context *open_loopback(void)
{
	return open_named(otherwise("LOOP_DEVICE", "roce_lo"));
}

/* The index of 127.0.0.1, or of the other address; that of iWARP's only GID, which is none. */
__attribute__((unused)) static int gid_index(struct ibv_context *ctx)
{
	uint8_t want[16] = {[10] = 0xff, [11] = 0xff};
	union ibv_gid gid;

	if (ctx->device->transport_type == IBV_TRANSPORT_IWARP)
		return 0;
	MUST(inet_pton(AF_INET, otherwise("LOOP_ADDRESS", "127.0.0.1"), want + 12) == 1);
	for (int i = 0; ibv_query_gid(ctx, PORT, i, &gid) == 0; i++)
		if (!memcmp(&gid, want, sizeof(want)))
			return i;
	MUST(!"the address is in the GID table");
	return 0;
}

/* -- an end -------------------------------------------------------------------- */

#define BYTES 65536
#define DEPTH 64

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
};

#define ALL_ACCESS                                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |        \
	 IBV_ACCESS_MW_BIND)

/* Memory, a domain and a completion queue; cq may be one of the caller's. */
__attribute__((unused)) static void end_open(struct end *e, struct ibv_context *ctx, struct ibv_cq *cq)
{
	memset(e, 0, sizeof(*e));
	e->ctx = ctx;
	MUST(e->pd = ibv_alloc_pd(ctx));
	MUST(e->buf = aligned_alloc(4096, BYTES));
	memset(e->buf, 0, BYTES);
	MUST(e->mr = ibv_reg_mr(e->pd, e->buf, BYTES, ALL_ACCESS));
	MUST(e->cq = cq ? cq : ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, 0));
}

__attribute__((unused)) static struct ibv_qp_init_attr_ex end_init(struct end *e, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = type,
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};
}

__attribute__((unused)) static void end_qp(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = end_init(e, type);

	MUST(e->qp = ibv_create_qp_ex(e->ctx, &init));
}

__attribute__((unused)) static void end_close(struct end *e, int with_cq)
{
	if (e->qp)
		EQUAL(ibv_destroy_qp(e->qp), 0);
	if (with_cq)
		EQUAL(ibv_destroy_cq(e->cq), 0);
	EQUAL(ibv_dereg_mr(e->mr), 0);
	EQUAL(ibv_dealloc_pd(e->pd), 0);
	free(e->buf);
}

/* -- connecting ------------------------------------------------------------------ */

#define QKEY 0x11111111
#define PSN 0x123

__attribute__((unused)) static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = PORT,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (qp->qp_type == IBV_QPT_UC)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (qp->qp_type == IBV_QPT_UD) {
		attr.qkey = QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	EQUAL(ibv_modify_qp(qp, &attr, mask), 0);
}

__attribute__((unused)) static struct ibv_ah_attr address(struct ibv_context *ctx)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = PORT};

	a.grh.sgid_index = (uint8_t)gid_index(ctx);
	a.grh.hop_limit = 64;
	MUST(ibv_query_gid(ctx, PORT, a.grh.sgid_index, &a.grh.dgid) == 0);
	return a;
}

__attribute__((unused)) static void to_rtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD) {
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer;
		attr.rq_psn = PSN;
		attr.ah_attr = address(qp->context);
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV) {
		attr.max_dest_rd_atomic = 4;
		attr.min_rnr_timer = 1;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	EQUAL(ibv_modify_qp(qp, &attr, mask), 0);
}

__attribute__((unused)) static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = PSN};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND) {
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 4;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	EQUAL(ibv_modify_qp(qp, &attr, mask), 0);
}

__attribute__((unused)) static void connect_qps(struct ibv_qp *a, struct ibv_qp *b)
{
	to_init(a);
	to_init(b);
	to_rtr(a, b->qp_num);
	to_rtr(b, a->qp_num);
	to_rts(a);
	to_rts(b);
}

/* Two connected ends of a service on one context. */
__attribute__((unused)) static void pair(struct end *a, struct end *b, struct ibv_context *ctx, enum ibv_qp_type type)
{
	end_open(a, ctx, NULL);
	end_open(b, ctx, NULL);
	end_qp(a, type);
	end_qp(b, type);
	connect_qps(a->qp, b->qp);
}

__attribute__((unused)) static void unpair(struct end *a, struct end *b)
{
	end_close(a, 1);
	end_close(b, 1);
}

/* -- moving data ----------------------------------------------------------------- */

__attribute__((unused)) static int post_recv(struct end *e, uint64_t id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

__attribute__((unused)) static int post_send(struct end *e, uint64_t id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

/* A WRITE or READ of a's memory at offset 0 with the peer's at remote_addr. */
__attribute__((unused)) static int post_rdma(struct end *e, enum ibv_wr_opcode opcode, uint64_t id, uint32_t length,
					     uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = length, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(e->qp, &wr, &bad);
}

/* Polls for one completion: 1, 0 after PATIENCE_MS, or the error. */
__attribute__((unused)) static int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	long long end = now_ms() + PATIENCE_MS;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (n)
			return n;
	} while (now_ms() < end);
	return 0;
}

/* The next completion is of this id and status. */
#define WANT_WC(cq, id, want_status)                                                                                   \
	do {                                                                                                           \
		struct ibv_wc wc_;                                                                                     \
		int n_ = wait_wc(cq, &wc_);                                                                            \
		if (n_ != 1)                                                                                           \
			failed(__FILE__, __LINE__, "no completion %lld: poll says %d", (long long)(id), n_);           \
		else if (wc_.wr_id != (uint64_t)(id) || wc_.status != (want_status))                                   \
			failed(__FILE__, __LINE__, "completion %lld %s, want %lld %s", (long long)wc_.wr_id,           \
			       ibv_wc_status_str(wc_.status), (long long)(id), ibv_wc_status_str(want_status));        \
	} while (0)

/* Whether fd becomes readable within ms. */
__attribute__((unused)) static int readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* The program's exit status, and the context's end. */
__attribute__((unused)) static int finish(struct ibv_context *ctx)
{
	EQUAL(ibv_close_device(ctx), 0);
	return failures ? 1 : 0;
}

#endif
