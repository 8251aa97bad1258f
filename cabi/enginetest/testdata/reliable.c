/* SPDX-License-Identifier: BSD-2-Clause */
/* RC over loopback: every operation, from work requests as C has them. */
#include "harness.h"

static _Alignas(64) char memory[1 << 16];

int main(int argc, char **argv)
{
	vb_handle ctx, pd;
	start(argc, argv);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *ca = new_cq(ctx, 100, 0, 1), *cb = new_cq(ctx, 100, 0, 2);
	struct qp a = new_qp(pd, IBV_QPT_RC, ca, ca, 0, 3), b = new_qp(pd, IBV_QPT_RC, cb, cb, 0, 4);
	connect_qp(a, b.num);
	connect_qp(b, a.num);
	struct mr m = new_mr(pd, memory, sizeof memory);
	char *src = memory, *dst = memory + 32768;
	for (int i = 0; i < 32768; i++)
		src[i] = i * 7 + 1;
	struct ibv_send_wr *bad = (void *)1;

	/* A list: SEND, SEND with immediate, inline, of elements in pieces. */
	post_recv(b, 11, dst, 8192, m.lkey);
	post_recv(b, 12, dst + 8192, 8192, m.lkey);
	post_recv(b, 13, dst + 16384, 8192, m.lkey);
	struct ibv_sge pieces[2] = {{(uintptr_t)src, 3000, m.lkey}, {(uintptr_t)src + 3000, 2000, m.lkey}};
	struct ibv_sge whole = {(uintptr_t)src + 100, 4096, m.lkey};
	char words[2][8] = {"inl", "ine\0!"};
	struct ibv_sge inl[2] = {{(uintptr_t)words[0], 3, 0xdead}, {(uintptr_t)words[1], 6, 0xbeef}};
	struct ibv_send_wr w3 = {.wr_id = 3, .sg_list = inl, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	struct ibv_send_wr w2 = {.wr_id = 2, .next = &w3, .sg_list = &whole, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(0x01020304)};
	struct ibv_send_wr w1 = {.wr_id = 1, .next = &w2, .sg_list = pieces, .num_sge = 2, .opcode = IBV_WR_SEND};
	CALL(0, e->qp_post_send(a.handle, &w1, &bad));
	memset(words, 'x', sizeof words); /* inline data was taken */
	struct vb_wc wc = WANT_WC(cb, 11, 0, OP_RECV);
	CHECK(wc.byte_len == 5000 && wc.qp_num == b.num && !(wc.flags & IBV_WC_WITH_IMM) && !memcmp(dst, src, 5000));
	wc = WANT_WC(cb, 12, 0, OP_RECV);
	CHECK(wc.byte_len == 4096 && wc.flags & IBV_WC_WITH_IMM && wc.imm_data == 0x01020304 && !memcmp(dst + 8192, src + 100, 4096));
	wc = WANT_WC(cb, 13, 0, OP_RECV);
	CHECK(wc.byte_len == 9 && !memcmp(dst + 16384, "inline\0!", 9));
	WANT_WC(ca, 2, 0, OP_SEND);
	WANT_WC(ca, 3, 0, OP_SEND);

	/* RDMA WRITE, with immediate, READ. */
	memset(dst, 0, 16384);
	struct ibv_sge s = {(uintptr_t)src, 5000, m.lkey};
	struct ibv_send_wr w = {.wr_id = 4, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = {.remote_addr = (uintptr_t)dst, .rkey = m.rkey}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 4, 0, OP_WRITE);
	CHECK(!memcmp(dst, src, 5000));

	post_recv(b, 14, NULL, 0, 0);
	w.wr_id = 5;
	w.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w.imm_data = htonl(77);
	w.wr.rdma.remote_addr += 5000;
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	wc = WANT_WC(cb, 14, 0, OP_RECV_IMM);
	CHECK(wc.imm_data == 77 && wc.byte_len == 5000 && !memcmp(dst + 5000, src, 5000));
	WANT_WC(ca, 5, 0, OP_WRITE);

	s.addr = (uintptr_t)dst + 16384;
	w = (struct ibv_send_wr){.wr_id = 6, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)src, .rkey = m.rkey}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 6, 0, OP_READ);
	CHECK(!memcmp(dst + 16384, src, 5000));

	/* Atomics. */
	uint64_t *word = (uint64_t *)dst, *result = word + 1;
	*word = 40;
	s = (struct ibv_sge){(uintptr_t)result, 8, m.lkey};
	w = (struct ibv_send_wr){.wr_id = 7, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {.remote_addr = (uintptr_t)word, .rkey = m.rkey, .compare_add = 2}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 7, 0, OP_ADD);
	CHECK(*word == 42 && *result == 40);
	w.wr_id = 8;
	w.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	w.wr.atomic.compare_add = 42;
	w.wr.atomic.swap = 99;
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 8, 0, OP_CMP);
	CHECK(*word == 99 && *result == 42);

	/* ATOMIC WRITE of 8 inline bytes. */
	uint64_t value = 0x1122334455667788;
	s = (struct ibv_sge){(uintptr_t)&value, 8, 0};
	w = (struct ibv_send_wr){.wr_id = 9, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .wr.rdma = {.remote_addr = (uintptr_t)word, .rkey = m.rkey}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 9, 0, 9);
	CHECK(*word == value);

	/* A type 2 window: BIND_MW, its key, SEND with invalidate, LOCAL_INV. */
	struct vb_mr vm = {.handle = m.handle};
	struct vb_mw w2b = {.mw = {.type = IBV_MW_TYPE_2}};
	uint32_t key;
	CALL(0, e->mw_alloc(pd, IBV_MW_TYPE_2, &w2b.handle, &key));
	uint32_t bound = (key & ~0xffu) | 0x42;
	/* b's window: a names it. */
	w = (struct ibv_send_wr){.wr_id = 20, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {.mw = &w2b.mw, .rkey = bound, .bind_info = {.mr = &vm.mr, .addr = (uintptr_t)dst, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};
	CALL(0, e->qp_post_send(b.handle, &w, &bad));
	WANT_WC(cb, 20, 0, OP_BIND);
	s = (struct ibv_sge){(uintptr_t)src, 64, m.lkey};
	w = (struct ibv_send_wr){.wr_id = 21, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)dst, .rkey = bound}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 21, 0, OP_WRITE);
	CHECK(!memcmp(dst, src, 64));
	post_recv(b, 22, dst, 64, m.lkey);
	w = (struct ibv_send_wr){.wr_id = 22, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = bound};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	wc = WANT_WC(cb, 22, 0, OP_RECV);
	CHECK(wc.flags & IBV_WC_WITH_INV && wc.invalidated_rkey == bound);
	WANT_WC(ca, 22, 0, OP_SEND);

	/* A type 1 window tells its key when the bind is posted. */
	struct vb_mw w1b = {.mw = {.type = IBV_MW_TYPE_1}};
	CALL(0, e->mw_alloc(pd, IBV_MW_TYPE_1, &w1b.handle, &key));
	struct ibv_mw_bind bind = {.wr_id = 23, .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = &vm.mr, .addr = (uintptr_t)dst, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
	uint32_t first, second;
	CALL(0, e->qp_bind_mw(b.handle, &w1b, &bind, &first));
	bind.wr_id = 24;
	CALL(0, e->qp_bind_mw(b.handle, &w1b, &bind, &second));
	CHECK(first != second);
	WANT_WC(cb, 23, 0, OP_BIND);
	WANT_WC(cb, 24, 0, OP_BIND);
	w = (struct ibv_send_wr){.wr_id = 25, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)dst, .rkey = second}};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 25, 0, OP_READ);

	/* Query returns the attributes that were set, and zeroes the rest. */
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	memset(&attr, 0xff, sizeof attr);
	memset(&init, 0xff, sizeof init);
	CALL(0, e->qp_query(a.handle, &attr, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == b.num);
	CHECK(attr.ah_attr.is_global == 1 && !memcmp(&attr.ah_attr.grh.dgid, &(union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}}, 16));
	CHECK(attr.timeout == 14 && attr.retry_cnt == 7 && attr.rnr_retry == 7 && attr.max_rd_atomic == 4 && attr.max_dest_rd_atomic == 4);
	CHECK(attr.min_rnr_timer == 1 && attr.port_num == 1 && attr.cap.max_send_sge == 4 && attr.alt_port_num == 0 && attr.rate_limit == 0);
	CHECK(init.cap.max_inline_data == attr.cap.max_inline_data && init.sq_sig_all == 0);

	/* Resizing keeps waiting completions; destroying removes them. */
	post_recv(b, 30, dst, 64, m.lkey);
	w = (struct ibv_send_wr){.wr_id = 30, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 30, 0, OP_SEND);
	struct vb_wc *larger = calloc(256, sizeof *larger);
	CALL(EINVAL, e->cq_resize(cb->handle, 200, larger, 99));
	CALL(0, e->cq_resize(cb->handle, 200, larger, 255));
	CHECK(cb->ring.slots == larger && cb->ring.mask == 255);
	WANT_WC(cb, 30, 0, OP_RECV);
	post_recv(b, 31, dst, 64, m.lkey);
	w.wr_id = 31;
	CALL(0, e->qp_post_send(a.handle, &w, &bad));
	WANT_WC(ca, 31, 0, OP_SEND);
	CALL(EBUSY, e->cq_destroy(cb->handle));
	CALL(0, e->qp_destroy(b.handle));
	CHECK(!poll_cq(cb, &wc));

	CALL(0, e->qp_destroy(a.handle));
	CALL(0, e->cq_destroy(ca->handle));
	CALL(0, e->cq_destroy(cb->handle));
	CALL(EBUSY, e->pd_free(pd));
	CALL(EBUSY, e->mr_dereg(m.handle)); /* a window is bound to it */
	CALL(0, e->mw_free(w1b.handle));
	CALL(0, e->mw_free(w2b.handle));
	CALL(0, e->mr_dereg(m.handle));
	CALL(0, e->pd_free(pd));
	CALL(0, e->ctx_close(ctx));
	printf("ok\n");
	return 0;
}
