/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of each kind on the loopback device, until the standard input ends. The line of output has
 * the number of a queue pair, the PSN that it sends next, and the number of another one, which takes
 * from the shared receive queue.
 */
#include "loop.h"

#include <rdma/rdma_cma.h>
#include <unistd.h>

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	static char memory[4096];
	struct rdma_cm_id *id;
	struct ibv_qp *qp, *shared;
	char c;

	MUST(pd && cq && ibv_reg_mr(pd, memory, sizeof memory, 0));
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	init.srq = ibv_create_srq(pd, &srq_attr);
	MUST(qp && init.srq);
	shared = ibv_create_qp(pd, &init);
	MUST(shared);
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	printf("%u %u %u\n", qp->qp_num, attr.sq_psn, shared->qp_num);
	fflush(stdout);
	return read(0, &c, 1) != 0;
}
