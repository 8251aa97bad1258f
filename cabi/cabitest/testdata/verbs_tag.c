/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching: ibv_create_srq_ex(3) with IBV_SRQT_TM, ibv_post_srq_ops(3), infiniband/tm_types.h. */
#include "loop.h"

#include <endian.h>
#include <infiniband/tm_types.h>

#define TAG 0x8765432112345678ULL
#define CONTEXT 0x89abcdefu

static struct ibv_cq_ex *cq;

static struct ibv_srq_init_attr_ex matching(struct end *e)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 10, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = e->pd,
		.cq = e->cq,
		.tm_cap = {.max_num_tags = 2, .max_ops = 4},
	};
}

static void refusals(struct ibv_context *ctx, struct end *e)
{
	struct ibv_srq_init_attr_ex attr = matching(e);
	struct ibv_device_attr_ex device;
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC}, *bad = NULL;
	struct ibv_srq *plain;

	EQUAL(ibv_query_device_ex(ctx, NULL, &device), 0);
	EQUAL(device.tm_caps.flags, IBV_TM_CAP_RC);
	CHECK(device.tm_caps.max_num_tags >= 64 && device.tm_caps.max_ops >= 64 && device.tm_caps.max_sge >= 1);
	CHECK(device.tm_caps.max_rndv_hdr_size >= sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh));
	for (unsigned int bit = 1; bit < IBV_SRQ_INIT_ATTR_RESERVED; bit <<= 1) {
		attr.comp_mask ^= bit; /* one is missing, or is too much */
		REFUSED(ibv_create_srq_ex(ctx, &attr), EINVAL);
		attr.comp_mask ^= bit;
	}
	attr.tm_cap.max_num_tags = device.tm_caps.max_num_tags + 1;
	REFUSED(ibv_create_srq_ex(ctx, &attr), EINVAL);
	attr.tm_cap.max_num_tags = 0;
	REFUSED(ibv_create_srq_ex(ctx, &attr), EINVAL);
	attr = matching(e);
	attr.tm_cap.max_ops = device.tm_caps.max_ops + 1;
	REFUSED(ibv_create_srq_ex(ctx, &attr), EINVAL);
	attr = matching(e);
	attr.cq = NULL;
	REFUSED(ibv_create_srq_ex(ctx, &attr), EINVAL);

	attr = matching(e);
	attr.srq_type = IBV_SRQT_BASIC;
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	MUST(plain = ibv_create_srq_ex(ctx, &attr));
	EQUAL(ibv_post_srq_ops(plain, &op, &bad), EOPNOTSUPP);
	CHECK(bad == &op);
	EQUAL(ibv_destroy_srq(plain), 0);
}

/* The next completion, whose tag is that of a match or 0. */
static void want(uint64_t id, enum ibv_wc_opcode opcode, unsigned int flags, uint32_t length, int tagged)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc_tm_info info = {1, 1};
	long long end = now_ms() + PATIENCE_MS;

	while (ibv_start_poll(cq, &attr))
		MUST(now_ms() < end);
	EQUAL(cq->wr_id, id);
	EQUAL(cq->status, IBV_WC_SUCCESS);
	EQUAL(ibv_wc_read_opcode(cq), opcode);
	EQUAL(ibv_wc_read_wc_flags(cq), flags);
	EQUAL(ibv_wc_read_byte_len(cq), length);
	ibv_wc_read_tm_info(cq, &info);
	EQUAL(info.tag, tagged ? TAG : 0);
	EQUAL(info.priv, tagged ? CONTEXT : 0);
	ibv_end_poll(cq);
}

/* Adds a receive of 1000 bytes at offset for TAG, and returns its handle. */
static uint32_t add(struct end *e, struct ibv_srq *srq, uint64_t id, size_t offset)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + offset, .length = 1000, .lkey = e->mr->lkey};
	struct ibv_ops_wr op = {.wr_id = 100 + id, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED}, *bad;

	op.tm.add.recv_wr_id = id;
	op.tm.add.sg_list = &sge;
	op.tm.add.num_sge = 1;
	op.tm.add.tag = TAG;
	op.tm.add.mask = ~0ULL;
	EQUAL(ibv_post_srq_ops(srq, &op, &bad), 0);
	return op.tm.handle;
}

/* Sends n bytes after a header. */
static void deliver(struct end *from, enum ibv_tmh_op opcode, const void *data, uint32_t n)
{
	struct ibv_tmh header = {.opcode = opcode, .app_ctx = htobe32(CONTEXT), .tag = htobe64(TAG)};

	memcpy(from->buf, &header, sizeof(header));
	memcpy(from->buf + sizeof(header), data, n);
	EQUAL(post_send(from, 1, 0, (uint32_t)sizeof(header) + n), 0);
	WANT_WC(from->cq, 1, IBV_WC_SUCCESS);
}

static void traffic(struct end *from, struct end *to, struct ibv_srq *srq)
{
	struct ibv_sge sge = {.addr = (uintptr_t)to->buf + 5000, .length = 100, .lkey = to->mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 50, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_ops_wr ops[3] = {{.opcode = IBV_WR_TAG_SYNC, .next = ops + 1}, {.opcode = (enum ibv_ops_wr_opcode)9}}, *bad;
	struct ibv_rvh announced = {.va = htobe64((uintptr_t)from->buf + 4000), .rkey = htobe32(from->mr->rkey), .len = htobe32(900)};
	struct ibv_tmh fin;
	uint32_t handle;

	EQUAL(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	add(to, srq, 1, 0);
	want(101, IBV_WC_TM_ADD, 0, 0, 0);
	deliver(from, IBV_TMH_EAGER, "eager", 5);
	want(1, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 5, 1);
	CHECK(!memcmp(to->buf, "eager", 5));

	deliver(from, IBV_TMH_NO_TAG, "", 0);
	want(50, IBV_WC_TM_NO_TAG, 0, sizeof(struct ibv_tmh), 0);

	EQUAL(post_recv(from, 9, 3000, 100), 0);
	memset(from->buf + 4000, 'r', 900);
	add(to, srq, 2, 1000);
	want(102, IBV_WC_TM_ADD, 0, 0, 0);
	deliver(from, IBV_TMH_RNDV, &announced, sizeof(announced));
	want(2, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 900, 1);
	want(2, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 900, 0);
	CHECK(!memcmp(to->buf + 1000, from->buf + 4000, 900));
	WANT_WC(from->cq, 9, IBV_WC_SUCCESS);
	memcpy(&fin, from->buf + 3000, sizeof(fin));
	EQUAL(fin.opcode, IBV_TMH_FIN);
	EQUAL(be64toh(fin.tag), TAG);

	recv.wr_id = 51;
	EQUAL(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	deliver(from, IBV_TMH_EAGER, "early", 5);
	want(51, IBV_WC_TM_RECV, 0, sizeof(struct ibv_tmh) + 5, 0);
	CHECK(!memcmp(to->buf + 5000, from->buf, sizeof(struct ibv_tmh) + 5));
	handle = add(to, srq, 3, 2000);
	want(103, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ, 0, 0);

	ops[0].wr_id = 60; /* the list is carried out as far as the one that is wrong */
	ops[0].flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
	ops[0].tm.unexpected_cnt = 1;
	EQUAL(ibv_post_srq_ops(srq, ops, &bad), EINVAL);
	CHECK(bad == ops + 1);
	want(60, IBV_WC_TM_SYNC, 0, 0, 0);
	ops[0] = (struct ibv_ops_wr){.wr_id = 61, .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED};
	ops[0].tm.handle = handle;
	EQUAL(ibv_post_srq_ops(srq, ops, &bad), 0);
	want(61, IBV_WC_TM_DEL, 0, 0, 0);
	EQUAL(ibv_post_srq_ops(srq, ops, &bad), 0); /* it is gone */
	WANT_WC(to->cq, 61, IBV_WC_TM_ERR);

	add(to, srq, 4, 0);
	add(to, srq, 5, 0);
	ops[0] = (struct ibv_ops_wr){.opcode = IBV_WR_TAG_ADD};
	EQUAL(ibv_post_srq_ops(srq, ops, NULL), ENOMEM);
	EQUAL(post_send(to, 1, 0, 4), EINVAL); /* its send queue is the device's */
}

int main(void)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_context *ctx = open_loopback();
	struct ibv_srq_init_attr_ex attr;
	struct ibv_qp_init_attr_ex init;
	struct ibv_srq *srq;
	struct end a, b;

	MUST(cq = ibv_create_cq_ex(ctx, &cq_attr));
	end_open(&a, ctx, NULL);
	end_open(&b, ctx, ibv_cq_ex_to_cq(cq));
	refusals(ctx, &b);
	attr = matching(&b);
	MUST(srq = ibv_create_srq_ex(ctx, &attr));
	end_qp(&a, IBV_QPT_RC);
	init = end_init(&b, IBV_QPT_RC);
	init.srq = srq;
	init.cap.max_send_wr = 0;
	MUST(b.qp = ibv_create_qp_ex(ctx, &init));
	connect_qps(a.qp, b.qp);
	traffic(&a, &b, srq);
	end_close(&a, 1);
	EQUAL(ibv_destroy_srq(srq), EBUSY);
	EQUAL(ibv_destroy_qp(b.qp), 0);
	b.qp = NULL;
	EQUAL(ibv_destroy_cq(b.cq), EBUSY);
	EQUAL(ibv_destroy_srq(srq), 0);
	end_close(&b, 1);
	return finish(ctx);
}
