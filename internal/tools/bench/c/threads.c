/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads COUNT SECONDS ADDR: each thread has two queue pairs of its own, connected with
 * each other, sends on one, receives on the other and polls. Prints messages a second of
 * all threads.
 */
#include "requests.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#define BURST 16 /* outstanding messages */
#define BYTES 64
#define PORT 1

static struct ibv_context *verbs;
static union ibv_gid gid;
static int gid_index;
static volatile double end; /* when threads stop */
static pthread_barrier_t all_are_ready;

static void find_gid(const char *addr)
{
	union ibv_gid want = { .raw = { [10] = 0xff, [11] = 0xff } };

	CHECK(inet_pton(AF_INET, addr, want.raw + 12) == 1);
	for (gid_index = 0; ibv_query_gid(verbs, PORT, gid_index, &gid) == 0; gid_index++)
		if (memcmp(&gid, &want, sizeof gid) == 0)
			return;
	fprintf(stderr, "no GID is %s\n", addr);
	exit(1);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1,
		.cap = { BURST, BURST, 1, 1, BYTES },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = PORT,
			     .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};

	CHECK(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	CHECK(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void *exchange(void *result)
{
	static __thread char memory[BYTES];
	struct ibv_pd *pd = ibv_alloc_pd(verbs);
	struct ibv_cq *cq = ibv_create_cq(verbs, 4 * BURST, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *from = make_qp(pd, cq), *to = make_qp(pd, cq);
	struct ibv_sge sge = { (uintptr_t)memory, BYTES, mr->lkey };
	struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_INLINE }, *bad_send;
	struct ibv_wc wc[2 * BURST];
	long sent = 0;

	connect_qp(from, to->qp_num);
	connect_qp(to, from->qp_num);
	pthread_barrier_wait(&all_are_ready);
	while (now() < end) {
		for (int i = 0; i < BURST; i++)
			CHECK((errno = ibv_post_recv(to, &receive, &bad_receive)) == 0);
		for (int i = 0; i < BURST; i++)
			CHECK((errno = ibv_post_send(from, &send, &bad_send)) == 0);
		for (int done = 0, n; done < 2 * BURST; done += n) {
			CHECK((n = ibv_poll_cq(cq, 2 * BURST, wc)) >= 0);
			for (int i = 0; i < n; i++)
				CHECK(wc[i].status == IBV_WC_SUCCESS);
		}
		sent += BURST;
	}
	*(long *)result = sent;
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	pthread_t *threads;
	long *sent, all = 0;
	double seconds;
	int count;

	CHECK(argc == 4);
	count = atoi(argv[1]);
	seconds = atof(argv[2]);
	CHECK((list = ibv_get_device_list(NULL)) && list[0] && (verbs = ibv_open_device(list[0])));
	find_gid(argv[3]);
	CHECK((threads = calloc(count, sizeof *threads)) && (sent = calloc(count, sizeof *sent)));
	CHECK(pthread_barrier_init(&all_are_ready, NULL, count + 1) == 0);
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(threads + i, NULL, exchange, sent + i) == 0);
	end = now() + 3600; /* some threads begin before the real end is known */
	pthread_barrier_wait(&all_are_ready);
	end = now() + seconds;
	for (int i = 0; i < count; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
		all += sent[i];
	}
	printf("%.0f\n", all / seconds);
	return 0;
}
