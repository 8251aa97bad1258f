/* SPDX-License-Identifier: BSD-2-Clause */
/* RC through the plain API: SEND with immediate, WRITE, READ, atomics, a key that is wrong. */
#include "loop.h"

#include <arpa/inet.h>

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_send_wr wr = {0}, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct end a, b;
	uint64_t word;

	pair(&a, &b, ctx, IBV_QPT_RC);
	EQUAL(a.qp->state, IBV_QPS_RTS);

	strcpy(a.buf, "hello");
	EQUAL(post_recv(&b, 1, 0, 100), 0);
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 6, .lkey = a.mr->lkey};
	wr = (struct ibv_send_wr){.wr_id = 2,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(0x01020304)};
	EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
	MUST(wait_wc(b.cq, &wc) == 1);
	EQUAL(wc.wr_id, 1);
	EQUAL(wc.status, IBV_WC_SUCCESS);
	EQUAL(wc.opcode, IBV_WC_RECV);
	EQUAL(wc.byte_len, 6);
	EQUAL(wc.wc_flags, IBV_WC_WITH_IMM);
	EQUAL(wc.imm_data, htonl(0x01020304));
	EQUAL(wc.qp_num, b.qp->qp_num);
	CHECK(!strcmp(b.buf, "hello"));
	MUST(wait_wc(a.cq, &wc) == 1);
	EQUAL(wc.opcode, IBV_WC_SEND);
	EQUAL(wc.qp_num, a.qp->qp_num);

	memset(a.buf, 'w', 5000);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 5000, (uintptr_t)b.buf, b.mr->rkey), 0);
	WANT_WC(a.cq, 3, IBV_WC_SUCCESS);
	CHECK(b.buf[0] == 'w' && b.buf[4999] == 'w' && !b.buf[5000]);

	memset(b.buf, 'r', 5000);
	EQUAL(post_rdma(&a, IBV_WR_RDMA_READ, 4, 5000, (uintptr_t)b.buf, b.mr->rkey), 0);
	WANT_WC(a.cq, 4, IBV_WC_SUCCESS);
	CHECK(a.buf[0] == 'r' && a.buf[4999] == 'r' && !a.buf[5000]);

	word = 40;
	memcpy(b.buf, &word, 8);
	sge.length = 8;
	wr = (struct ibv_send_wr){.wr_id = 5,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED};
	wr.wr.atomic.remote_addr = (uintptr_t)b.buf;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
	WANT_WC(a.cq, 5, IBV_WC_SUCCESS);
	memcpy(&word, a.buf, 8);
	EQUAL(word, 40);
	wr.wr_id = 6;
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
	WANT_WC(a.cq, 6, IBV_WC_SUCCESS);
	memcpy(&word, b.buf, 8);
	EQUAL(word, 7);

	/* A list of which the second is wrong: bad_wr names it, the first is under way. */
	struct ibv_send_wr second = wr;

	wr.wr_id = 7;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buf;
	wr.wr.rdma.rkey = b.mr->rkey;
	wr.next = &second;
	second.send_flags = 1 << 12;
	EQUAL(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	CHECK(bad == &second);
	WANT_WC(a.cq, 7, IBV_WC_SUCCESS);

	EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 8, 8, (uintptr_t)b.buf, b.mr->rkey + 1), 0);
	WANT_WC(a.cq, 8, IBV_WC_REM_ACCESS_ERR);

	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	EQUAL(a.qp->state, IBV_QPS_RTS); /* as the library knows it still */
	EQUAL(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	EQUAL(attr.qp_state, IBV_QPS_ERR);
	EQUAL(a.qp->state, IBV_QPS_ERR);
	CHECK(init.send_cq == a.cq && init.recv_cq == a.cq && !init.srq);
	EQUAL(init.qp_type, IBV_QPT_RC);
	CHECK(init.cap.max_send_wr >= DEPTH && init.cap.max_inline_data >= 64);

	unpair(&a, &b);
	return finish(ctx);
}
