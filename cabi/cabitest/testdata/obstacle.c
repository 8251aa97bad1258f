/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tries twice to connect queue pairs, by verbs and by the connection manager, with
 * something in the way of that: its caller's, or a filter of its own that refuses
 * sockets of the families whose numbers are the arguments. Says how often it could.
 */
#include "loop.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Has socket(2) of a family fail with EPERM. */
static void refuse_family(int family)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)family, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(f) / sizeof(*f), .filter = f};

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int by_verbs(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 4, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
	int could = 0;

	if (qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
					    .path_mtu = IBV_MTU_1024,
					    .dest_qp_num = qp->qp_num,
					    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}}};
		could = !ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid) &&
			!ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	}
	if (qp)
		ibv_destroy_qp(qp);
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return could;
}

static int by_manager(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct rdma_cm_id *id = NULL;
	int could;

	inet_pton(AF_INET, otherwise("LOOP_ADDRESS", "127.0.0.1"), &to.sin_addr);
	could = ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, (struct sockaddr *)&to) &&
		!rdma_listen(id, 1);
	if (id)
		rdma_destroy_id(id);
	if (ch)
		rdma_destroy_event_channel(ch);
	return could;
}

int main(int argc, char **argv)
{
	int could = 0;

	for (int i = 1; i < argc; i++)
		refuse_family(atoi(argv[i]));
	for (int i = 0; i < 2; i++)
		could += by_verbs() + by_manager();
	printf("%d\n", could);
	return 0;
}
