/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of before a fork in the child: each call says EIO, none hangs, crashes
 * or touches the parent's, whatever threads of the parent were doing; old and
 * new do not mix.
 */
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct end a, b;
static struct ibv_comp_channel *ch;
static struct ibv_cq *with_channel;
static struct ibv_cq_ex *cq_ex;
static struct ibv_srq *srq;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_qp_ex *qpx;
static int stop;

/* Holds the locks of polling most of the time. */
static void *poll_on(void *arg)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_wc wc;

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ibv_poll_cq(a.cq, 1, &wc);
		if (!ibv_start_poll(cq_ex, &attr))
			ibv_end_poll(cq_ex);
	}
	return NULL;
}

static void old_objects(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_mw_bind bind = {0};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_qp_init_attr init;
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC}, *bad_op;
	struct ibv_srq_attr srq_got;
	struct ibv_ah_attr address_attr = address(ctx);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr recv = {0}, *bad;
	struct ibv_async_event event;
	struct ibv_cq *got;
	struct ibv_wc wc;
	void *context;

	EQUAL(post_send(&a, 1, 0, 1), EIO);
	EQUAL(post_recv(&a, 1, 0, 1), EIO);
	EQUAL(ibv_post_srq_recv(srq, &recv, &bad), EIO);
	EQUAL(ibv_poll_cq(a.cq, 1, &wc), -EIO);
	EQUAL(ibv_start_poll(cq_ex, &poll_attr), EIO);
	EQUAL(ibv_req_notify_cq(with_channel, 0), EIO);
	EQUAL(ibv_get_cq_event(ch, &got, &context), -1);
	EQUAL(errno, EIO);
	EQUAL(ibv_get_async_event(ctx, &event), -1);
	EQUAL(errno, EIO);
	EQUAL(ibv_resize_cq(a.cq, 4), EIO);
	EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EIO);
	EQUAL(ibv_query_qp(a.qp, &attr, 0, &init), EIO);
	EQUAL(ibv_query_srq(srq, &srq_got), EIO);
	EQUAL(ibv_post_srq_ops(srq, &op, &bad_op), EIO);
	EQUAL(ibv_bind_mw(a.qp, mw, &bind), EIO);
	ibv_wr_start(qpx);
	ibv_wr_send(qpx);
	EQUAL(ibv_wr_complete(qpx), EIO);
	REFUSED(ibv_reg_mr(a.pd, a.buf, 10, 0), EIO);
	REFUSED(ibv_alloc_mw(a.pd, IBV_MW_TYPE_1), EIO);
	REFUSED(ibv_create_ah(a.pd, &address_attr), EIO);
	REFUSED(ibv_create_srq(a.pd, &srq_attr), EIO);
	EQUAL(ibv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EIO);
	EQUAL(ibv_destroy_qp(a.qp), EIO);
	EQUAL(ibv_destroy_srq(srq), EIO);
	EQUAL(ibv_destroy_cq(a.cq), EIO);
	EQUAL(ibv_dereg_mr(a.mr), EIO);
	EQUAL(ibv_dealloc_mw(mw), EIO);
	EQUAL(ibv_destroy_ah(ah), EIO);
	EQUAL(ibv_dealloc_pd(a.pd), EIO);
}

/* New objects of the old context, and combinations of both that are refused. */
static void new_objects(void)
{
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp *other;
	struct end c, d;

	pair(&c, &d, ctx, IBV_QPT_RC);
	EQUAL(post_recv(&d, 1, 0, 10), 0);
	EQUAL(post_send(&c, 2, 0, 1), 0);
	WANT_WC(c.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(d.cq, 1, IBV_WC_SUCCESS);
	init = end_init(&c, IBV_QPT_RC);
	init.recv_cq = a.cq;
	REFUSED(other = ibv_create_qp_ex(ctx, &init), EIO);
	init = end_init(&a, IBV_QPT_RC);
	init.send_cq = init.recv_cq = c.cq;
	REFUSED(other = ibv_create_qp_ex(ctx, &init), EIO);
	init = end_init(&c, IBV_QPT_RC);
	init.srq = srq;
	REFUSED(other = ibv_create_qp_ex(ctx, &init), EIO);
	EQUAL(ibv_rereg_mr(c.mr, IBV_REREG_MR_CHANGE_PD, a.pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQUAL(errno, EIO);
	REFUSED(ibv_create_cq(ctx, 1, NULL, ch, 0), EIO);
	unpair(&c, &d);
}

int main(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4};
	struct ibv_qp_init_attr_ex init;
	struct ibv_ah_attr attr;
	pthread_t t[2];
	struct end e;
	int status;

	ctx = open_loopback();
	attr = address(ctx);
	pair(&a, &b, ctx, IBV_QPT_RC);
	MUST(ch = ibv_create_comp_channel(ctx));
	MUST(with_channel = ibv_create_cq(ctx, 4, NULL, ch, 0));
	MUST(cq_ex = ibv_create_cq_ex(ctx, &cq_attr));
	MUST(srq = ibv_create_srq(a.pd, &srq_attr));
	MUST(mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_1));
	MUST(ah = ibv_create_ah(a.pd, &attr));
	end_open(&e, ctx, NULL);
	init = end_init(&e, IBV_QPT_RC);
	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	MUST(e.qp = ibv_create_qp_ex(ctx, &init));
	qpx = ibv_qp_to_qp_ex(e.qp);

	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&t[i], NULL, poll_on, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		MUST(pid >= 0);
		if (pid == 0) {
			alarm(120);
			old_objects();
			new_objects();
			_exit(failures != 0);
		}
		MUST(waitpid(pid, &status, 0) == pid);
		EQUAL(status, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);

	/* The parent's are whole. */
	EQUAL(post_recv(&b, 1, 0, 10), 0);
	EQUAL(post_send(&a, 2, 0, 1), 0);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	EQUAL(ibv_destroy_ah(ah), 0);
	EQUAL(ibv_dealloc_mw(mw), 0);
	EQUAL(ibv_destroy_srq(srq), 0);
	EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
	EQUAL(ibv_destroy_cq(with_channel), 0);
	EQUAL(ibv_destroy_comp_channel(ch), 0);
	end_close(&e, 1);
	unpair(&a, &b);
	return finish(ctx);
}
