/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls, each with its errno. */
#include "loop.h"

#include <sys/mman.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct end e;

static void absent(void)
{
	struct ibv_counters_init_attr counters = {0};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_wq_init_attr wq = {.pd = e.pd, .cq = e.cq, .max_wr = 1, .max_sge = 1};
	struct ibv_flow_attr flow = {0};
	struct ibv_flow_action_esp_attr esp = {0};

	if (strncmp(ctx->device->name, "roce", 4))
		REFUSED(ibv_create_counters(ctx, &counters), EOPNOTSUPP);
	REFUSED(ibv_create_rwq_ind_table(ctx, &table), EINVAL);
	/* Flows and work queues are for raw packet queue pairs, which other devices lack. */
	REFUSED(ibv_create_flow(e.qp, &flow), strncmp(ctx->device->name, "roce", 4) ? EOPNOTSUPP : EINVAL);
	if (strncmp(ctx->device->name, "roce", 4))
		REFUSED(ibv_create_wq(ctx, &wq), EOPNOTSUPP);
	wq.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	wq.create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
	REFUSED(ibv_create_wq(ctx, &wq), EOPNOTSUPP);
	REFUSED(ibv_create_flow_action_esp(ctx, &esp), EOPNOTSUPP);
}

static void regions(void)
{
	REFUSED(ibv_reg_mr(e.pd, e.buf, 100, IBV_ACCESS_REMOTE_WRITE), EINVAL); /* without local write */
	REFUSED(ibv_reg_mr(e.pd, e.buf, 100, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	REFUSED(ibv_reg_mr(e.pd, e.buf, 100, 1 << 15), EINVAL); /* no such right */
	REFUSED(ibv_reg_mr(NULL, e.buf, 100, 0), EINVAL);
	/* A hint that a device may ignore. */
	struct ibv_mr *mr = ibv_reg_mr(e.pd, e.buf, 100, IBV_ACCESS_RELAXED_ORDERING);

	CHECK(mr);
	EQUAL(ibv_dereg_mr(mr), 0);
}

/* Memory that may not be written is refused as the kernel refuses to pin it. */
static void read_only(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const int writes[] = {IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_MW_BIND};
	char *map = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	MUST(map != MAP_FAILED);
	memset(map, 'x', 3 * page);
	MUST(mprotect(map + page, page, PROT_READ) == 0);
	for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		REFUSED(ibv_reg_mr(e.pd, map + page, page, writes[i]), EFAULT);
		REFUSED(ibv_reg_mr(e.pd, map + page - 1, 2, writes[i]), EFAULT);
		REFUSED(ibv_reg_mr(e.pd, map + 2 * page - 1, 2, writes[i]), EFAULT);
		MUST(mr = ibv_reg_mr(e.pd, map + 2 * page, page, writes[i]));
		EQUAL(ibv_dereg_mr(mr), 0);
	}
	MUST(mr = ibv_reg_mr(e.pd, map + page, page, IBV_ACCESS_REMOTE_READ));
	errno = 0;
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EFAULT);
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, map, page, IBV_ACCESS_LOCAL_WRITE), 0);
	errno = 0;
	EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, map + page, page, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EFAULT);
	EQUAL(ibv_dereg_mr(mr), 0);
	for (size_t i = 0; i < 3 * page; i++)
		CHECK(map[i] == 'x');
	munmap(map, 3 * page);
}

static void queue_pairs(void)
{
	static const struct {
		const char *what;
		uint32_t wr, rwr, sge, inlined;
		int err;
	} caps[] = {
		{"fits", 100, 100, 4, 100, 0},
		{"max_send_wr", 1 << 30, 1, 1, 0, EINVAL},
		{"max_recv_wr", 1, 1 << 30, 1, 0, EINVAL},
		{"max_send_sge", 1, 1, 10000, 0, EINVAL},
		{"max_inline_data, as libfabric looks for the limit", 1, 1, 1, 1 << 30, EINVAL},
		{"max_inline_data, of all ones", 1, 1, 1, 0xffffffff, EINVAL},
	};
	struct ibv_qp_init_attr_ex init;
	struct ibv_device_attr dev;
	struct ibv_qp *qp;

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		init = end_init(&e, IBV_QPT_RC);
		init.cap = (struct ibv_qp_cap){caps[i].wr, caps[i].rwr, caps[i].sge, 1, caps[i].inlined};
		errno = 0;
		qp = ibv_create_qp_ex(ctx, &init);
		if ((qp ? 0 : errno) != caps[i].err)
			failed(__FILE__, __LINE__, "%s: errno %d, want %d", caps[i].what, qp ? 0 : errno, caps[i].err);
		if (qp)
			EQUAL(ibv_destroy_qp(qp), 0);
	}
	/* All that the device promises may be had. */
	EQUAL(ibv_query_device(ctx, &dev), 0);
	init = end_init(&e, IBV_QPT_RC);
	init.cap.max_send_wr = init.cap.max_recv_wr = (uint32_t)dev.max_qp_wr;
	init.cap.max_send_sge = init.cap.max_recv_sge = (uint32_t)dev.max_sge;
	MUST(qp = ibv_create_qp_ex(ctx, &init));
	EQUAL(init.cap.max_recv_wr, dev.max_qp_wr);
	EQUAL(ibv_destroy_qp(qp), 0);

	init = end_init(&e, IBV_QPT_RC);
	init.send_cq = NULL;
	REFUSED(ibv_create_qp_ex(ctx, &init), EINVAL);
	init = end_init(&e, IBV_QPT_RC);
	init.pd = NULL;
	REFUSED(ibv_create_qp_ex(ctx, &init), EINVAL);
	init = end_init(&e, (enum ibv_qp_type)77);
	REFUSED(ibv_create_qp_ex(ctx, &init), EINVAL);
	init = end_init(&e, IBV_QPT_DRIVER);
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init = end_init(&e, IBV_QPT_XRC_RECV); /* no domain */
	REFUSED(ibv_create_qp_ex(ctx, &init), EINVAL);
	init = end_init(&e, IBV_QPT_UD);
	init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init = end_init(&e, IBV_QPT_UD);
	init.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init = end_init(&e, IBV_QPT_UD);
	init.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	init = end_init(&e, IBV_QPT_UD);
	init.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	REFUSED(ibv_create_qp_ex(ctx, &init), EOPNOTSUPP);
	REFUSED(ibv_create_qp(NULL, (struct ibv_qp_init_attr *)&init), EINVAL);
}

/* Posting: the positive errno, and bad_wr. */
static void posting(void)
{
	struct ibv_recv_wr recv = {0}, *bad_recv = NULL;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;

	EQUAL(ibv_post_recv(e.qp, &recv, &bad_recv), EINVAL); /* in RESET */
	CHECK(bad_recv == &recv);
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EINVAL);
	CHECK(bad_send == &send);
	to_init(e.qp);
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EINVAL);
	int n = 0, err;

	while (!(err = ibv_post_recv(e.qp, &recv, &bad_recv)) && n < 1 << 20)
		n++;
	EQUAL(err, ENOMEM); /* full */
	CHECK(n >= DEPTH);
	recv.num_sge = 1 << 20;
	EQUAL(ibv_post_recv(e.qp, &recv, &bad_recv), EINVAL);
	recv.num_sge = -1;
	EQUAL(ibv_post_recv(e.qp, &recv, &bad_recv), EINVAL);
	to_rtr(e.qp, e.qp->qp_num);
	to_rts(e.qp);
	send.opcode = (enum ibv_wr_opcode)99;
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EINVAL);
	CHECK(bad_send == &send);
	send.opcode = IBV_WR_SEND;
	send.send_flags = 1 << 12;
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EINVAL);
	send.send_flags = IBV_SEND_INLINE;
	struct ibv_sge sge = {.addr = (uintptr_t)e.buf, .length = BYTES};

	send.sg_list = &sge;
	send.num_sge = 1;
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EINVAL); /* too much inline */
	/* Inline data are read at once: from where there is no memory not at all. */
	sge.length = 8;
	sge.addr = 0;
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EFAULT);
	CHECK(bad_send == &send);
	sge.addr = UINTPTR_MAX - 3; /* around the end of the address space */
	EQUAL(ibv_post_send(e.qp, &send, &bad_send), EFAULT);
}

static void modifying(void)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_qp_init_attr init;

	EQUAL(ibv_modify_qp(e.qp, &attr, 1 << 30), EINVAL);
	EQUAL(ibv_modify_qp(e.qp, NULL, IBV_QP_STATE), EINVAL);
	attr.qp_state = (enum ibv_qp_state)42;
	EQUAL(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), EINVAL);
	EQUAL(e.qp->state, IBV_QPS_RTS);
	EQUAL(ibv_query_qp(e.qp, NULL, 0, &init), EINVAL);
	EQUAL(ibv_query_qp(e.qp, &attr, 0, NULL), EINVAL);
}

static void nothing(void)
{
	void *context;
	struct ibv_cq *cq;

	REFUSED(ibv_alloc_pd(NULL), EINVAL);
	REFUSED(ibv_create_comp_channel(NULL), EINVAL);
	REFUSED(ibv_create_cq(NULL, 1, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_srq(e.pd, NULL), EINVAL);
	REFUSED(ibv_create_ah(e.pd, NULL), EINVAL);
	EQUAL(ibv_dealloc_pd(NULL), EINVAL);
	EQUAL(ibv_dereg_mr(NULL), EINVAL);
	EQUAL(ibv_destroy_cq(NULL), EINVAL);
	EQUAL(ibv_destroy_qp(NULL), EINVAL);
	EQUAL(ibv_destroy_srq(NULL), EINVAL);
	EQUAL(ibv_destroy_ah(NULL), EINVAL);
	EQUAL(ibv_destroy_comp_channel(NULL), EINVAL);
	errno = 0;
	EQUAL(ibv_get_cq_event(NULL, &cq, &context), -1);
	EQUAL(errno, EINVAL);
	EQUAL(ibv_get_async_event(ctx, NULL), -1);
}

/* Objects of another context do not mix. */
static void foreign(void)
{
	struct ibv_context *other = open_loopback();
	struct ibv_comp_channel *ch;
	struct ibv_qp_init_attr_ex init = end_init(&e, IBV_QPT_RC);
	struct ibv_cq *cq;

	MUST(ch = ibv_create_comp_channel(other));
	REFUSED(ibv_create_cq(ctx, 1, NULL, ch, 0), EINVAL);
	MUST(cq = ibv_create_cq(other, 1, NULL, ch, 0));
	init.recv_cq = cq;
	REFUSED(ibv_create_qp_ex(ctx, &init), EINVAL);
	EQUAL(ibv_destroy_cq(cq), 0);
	EQUAL(ibv_destroy_comp_channel(ch), 0);
	EQUAL(ibv_close_device(other), 0);
}

int main(void)
{
	ctx = open_loopback();
	end_open(&e, ctx, NULL);
	end_qp(&e, IBV_QPT_RC);
	absent();
	regions();
	read_only();
	queue_pairs();
	posting();
	modifying();
	nothing();
	foreign();
	end_close(&e, 1);
	return finish(ctx);
}
