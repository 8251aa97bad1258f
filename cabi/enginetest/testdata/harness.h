/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to the test programs: they are a front library of their own, with rings that they poll by
 * themselves. A check that fails names its line and ends the program.
 */
#include "engine.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x)                                                                  \
	do {                                                                      \
		if (!(x)) {                                                       \
			printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);       \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

/* CALL wants an errno, 0 for success. */
#define CALL(want, x)                                                             \
	do {                                                                      \
		int got_ = (x);                                                   \
		if (got_ != (want)) {                                             \
			printf("FAIL %s:%d: %s: %s, want %s\n", __FILE__, __LINE__, #x, strerror(got_), strerror(want)); \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

static const struct vb_engine *e;
static const char *device_name;
static int gid_index;

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static inline void start(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(argc >= 4);
	void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		printf("FAIL %s\n", dlerror());
		exit(1);
	}
	e = dlsym(so, VB_ENGINE_SYMBOL);
	CHECK(e && e->version == VB_ENGINE_VERSION);
	device_name = argv[2];
	gid_index = atoi(argv[3]);
}

struct cq {
	struct vb_cq_ring ring;
	vb_handle handle;
};

static inline struct cq *new_cq(vb_handle ctx, int depth, vb_handle channel, vb_cookie cookie)
{
	struct cq *q = aligned_alloc(64, sizeof *q);
	int n = 1;
	while (n < depth)
		n *= 2;
	memset(q, 0xee, sizeof *q);
	q->ring.mask = n - 1;
	q->ring.slots = calloc(n, sizeof *q->ring.slots);
	CALL(0, e->cq_create(ctx, depth, &q->ring, 0, channel, cookie, &q->handle));
	return q;
}

static inline int poll_cq(struct cq *q, struct vb_wc *wc)
{
	uint64_t h = atomic_load_explicit(&q->ring.head, memory_order_relaxed);
	if (h == atomic_load_explicit(&q->ring.tail, memory_order_acquire))
		return 0;
	*wc = q->ring.slots[h & q->ring.mask];
	atomic_store_explicit(&q->ring.head, h + 1, memory_order_release);
	return 1;
}

/* Waits for a completion, up to 10 seconds. */
static inline struct vb_wc want_wc(struct cq *q, int line)
{
	struct vb_wc wc;
	double end = now() + 10;
	while (!poll_cq(q, &wc)) {
		e->progress(q->handle, 1);
		if (now() > end) {
			printf("FAIL line %d: no completion\n", line);
			exit(1);
		}
		sched_yield();
	}
	return wc;
}
#define WANT_WC(q, id_, status_, opcode_)                                    \
	({                                                                        \
		struct vb_wc wc_ = want_wc(q, __LINE__);                     \
		if (wc_.wr_id != (id_) || wc_.status != (status_) || (wc_.status == 0 && wc_.opcode != (opcode_))) { \
			printf("FAIL line %d: completion of %lu: status %d, opcode %d, vendor %d; want %lu, %d, %d\n", __LINE__, \
			       (unsigned long)wc_.wr_id, wc_.status, wc_.opcode, wc_.vendor_err, (unsigned long)(id_), status_, opcode_); \
			exit(1);                                                  \
		}                                                                 \
		wc_;                                                              \
	})

/* Opcodes of vb_wc: ib.WCOpcode. */
enum { OP_SEND = 0, OP_WRITE = 1, OP_READ = 2, OP_CMP = 3, OP_ADD = 4, OP_BIND = 5, OP_INV = 6, OP_RECV = 128, OP_RECV_IMM = 129 };

/* Receives are posted into a ring too: of a power of two of them. */
struct recvs {
	struct vb_recv_ring ring;
	uint32_t wrs, sges;
	struct ibv_sge *slots;
};

static inline struct vb_recv_memory new_recvs(struct recvs **r, uint32_t wrs, uint32_t sges)
{
	*r = aligned_alloc(64, sizeof **r);
	memset(*r, 0xee, sizeof **r);
	(*r)->wrs = wrs;
	(*r)->sges = sges;
	(*r)->slots = calloc(wrs * (1 + sges), sizeof *(*r)->slots);
	return (struct vb_recv_memory){.ring = &(*r)->ring, .slots = (*r)->slots, .mask = wrs - 1};
}

/* Posts one receive; *tell is whether the engine is to know. */
static inline int push_recv(struct recvs *r, const struct ibv_recv_wr *wr, int *tell)
{
	uint64_t tail = atomic_load(&r->ring.tail);
	struct ibv_sge *slot = &r->slots[tail % r->wrs * (1 + r->sges)];

	*tell = 0;
	if (atomic_load(&r->ring.posting) == VB_RECV_REFUSED)
		return EINVAL;
	if (tail - atomic_load(&r->ring.head) >= r->wrs)
		return ENOMEM;
	slot[0] = (struct ibv_sge){.addr = wr->wr_id, .lkey = wr->num_sge};
	for (int i = 0; i < wr->num_sge; i++) {
		slot[0].length += wr->sg_list[i].length;
		slot[1 + i] = wr->sg_list[i];
	}
	atomic_store(&r->ring.tail, tail + 1);
	*tell = atomic_load(&r->ring.posting) != VB_RECV_FREE;
	return 0;
}

struct qp {
	vb_handle handle;
	uint32_t num;
	struct recvs *recvs;
};

static inline int qp_push_recv(struct qp q, const struct ibv_recv_wr *wr)
{
	int tell, err = push_recv(q.recvs, wr, &tell);

	if (tell)
		CALL(0, e->qp_recvs_posted(q.handle));
	return err;
}

static inline union ibv_gid local_gid(void)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
	return g;
}

static inline struct qp new_qp(vb_handle pd, enum ibv_qp_type type, struct cq *send, struct cq *recv, vb_handle srq, vb_cookie cookie)
{
	struct vb_qp_init init = {
		.type = type, .pd = pd, .send_cq = send->handle, .recv_cq = recv->handle, .srq = srq, .cookie = cookie,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
	struct qp q;
	init.recv = new_recvs(&q.recvs, 64, 4);
	CALL(0, e->qp_create(&init, &q.handle, &q.num));
	CHECK(init.cap.max_send_wr >= 64 && init.cap.max_inline_data >= 128);
	return q;
}

static inline void connect_qp(struct qp q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	CALL(0, e->qp_modify(q.handle, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = local_gid(), .sgid_index = gid_index, .hop_limit = 64}},
	};
	CALL(0, e->qp_modify(q.handle, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 7, .max_rd_atomic = 4};
	CALL(0, e->qp_modify(q.handle, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

struct mr {
	vb_handle handle;
	uint32_t lkey, rkey;
};

static inline struct mr new_mr(vb_handle pd, void *addr, size_t length)
{
	struct mr m;
	CALL(0, e->mr_reg(pd, addr, length, (uintptr_t)addr,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
			  &m.handle, &m.lkey, &m.rkey));
	return m;
}

static inline void post_recv(struct qp q, uint64_t id, void *addr, uint32_t length, uint32_t lkey)
{
	struct ibv_sge s = {.addr = (uintptr_t)addr, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1};
	CALL(0, qp_push_recv(q, &wr));
}
