/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain of three processes: ibv_open_xrcd(3) with a file. One has the queue pair, another
 * the shared receive queue, the third sends, and opens the queue pair: ibv_open_qp(3). They end one
 * after another, killed.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int file; /* of the domain */

/* A process and the way to it. It ends with its parent. */
struct process {
	pid_t pid;
	int fd;
};

static struct process start(void (*body)(int fd))
{
	struct process p;
	int fds[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	p.pid = fork();
	MUST(p.pid >= 0);
	if (p.pid == 0) {
		close(fds[0]);
		body(fds[1]);
		_exit(failures != 0);
	}
	close(fds[1]);
	p.fd = fds[0];
	return p;
}

static void tell(int fd, uint32_t v)
{
	MUST(write(fd, &v, sizeof(v)) == sizeof(v));
}

/* The other process's next word. A process whose parent has gone ends. */
static uint32_t hear(int fd)
{
	uint32_t v;

	if (read(fd, &v, sizeof(v)) != sizeof(v)) {
		if (getppid() == 1)
			_exit(1);
		MUST(!"the other process says something");
	}
	return v;
}

static void killed(struct process *p)
{
	int status;

	MUST(kill(p->pid, SIGKILL) == 0);
	MUST(waitpid(p->pid, &status, 0) == p->pid);
	close(p->fd);
}

static void idle(int fd)
{
	hear(fd);
}

static struct ibv_xrcd *open_domain(struct ibv_context *ctx, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file, .oflags = oflags};

	return ibv_open_xrcd(ctx, &attr);
}

/* The process with the shared receive queue: it posts a receive, and tells of a completion, on demand. */
enum { POST = 1, POLL, BYTE, KEY };

static void has_queue(int fd)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 10, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC};
	struct ibv_recv_wr recv = {0}, *bad;
	struct ibv_sge sge;
	struct ibv_srq *srq;
	uint32_t number;
	struct ibv_wc wc;
	struct end e;

	end_open(&e, ctx, NULL);
	MUST(attr.xrcd = open_domain(ctx, O_CREAT));
	attr.pd = e.pd;
	attr.cq = e.cq;
	MUST(srq = ibv_create_srq_ex(ctx, &attr));
	EQUAL(ibv_get_srq_num(srq, &number), 0);
	tell(fd, number);
	for (;;)
		switch (hear(fd)) {
		case POST:
			sge = (struct ibv_sge){.addr = (uintptr_t)e.buf, .length = BYTES, .lkey = e.mr->lkey};
			recv = (struct ibv_recv_wr){.wr_id = hear(fd), .sg_list = &sge, .num_sge = 1};
			EQUAL(ibv_post_srq_recv(srq, &recv, &bad), 0);
			tell(fd, 0);
			break;
		case POLL:
			MUST(wait_wc(e.cq, &wc) == 1);
			tell(fd, wc.wr_id);
			tell(fd, wc.status);
			tell(fd, wc.byte_len);
			tell(fd, wc.qp_num);
			tell(fd, wc.wc_flags & IBV_WC_WITH_IMM ? wc.imm_data : 0);
			break;
		case BYTE:
			tell(fd, (unsigned char)e.buf[hear(fd)]);
			break;
		case KEY:
			tell(fd, (uint32_t)(uintptr_t)e.buf);
			tell(fd, (uint32_t)((uint64_t)(uintptr_t)e.buf >> 32));
			tell(fd, e.mr->rkey);
			break;
		}
}

/* The process with the queue pair. */
static void has_target(int fd)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp *target;

	MUST(init.xrcd = open_domain(ctx, O_CREAT));
	for (;;) {
		MUST(target = ibv_create_qp_ex(ctx, &init));
		to_init(target);
		tell(fd, target->qp_num);
		to_rtr(target, hear(fd));
		tell(fd, 0);
		hear(fd); /* until another one is asked for */
		EQUAL(ibv_destroy_qp(target), 0);
	}
}

static void connect_with(struct end *e, struct process *target)
{
	uint32_t number = hear(target->fd);

	end_qp(e, IBV_QPT_XRC_SEND);
	to_init(e->qp);
	to_rtr(e->qp, number);
	tell(target->fd, e->qp->qp_num);
	hear(target->fd);
	to_rts(e->qp);
}

static void send_to(struct end *e, uint32_t srqn, uint64_t id, uint32_t bytes, uint32_t imm)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = bytes, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = imm}, *bad;

	wr.qp_type.xrc.remote_srqn = srqn;
	EQUAL(ibv_post_send(e->qp, &wr, &bad), 0);
}

static uint32_t byte_of(struct process *p, uint32_t at)
{
	tell(p->fd, BYTE);
	tell(p->fd, at);
	return hear(p->fd);
}

/* READs the queue's memory, adds to a word of it, and READs that. */
static void reads(struct end *e, struct process *queue, uint32_t srqn)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = BYTES - 8, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 20, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED}, *bad;
	char *sent = malloc(BYTES);
	uint64_t word, addr;

	MUST(sent);
	memcpy(sent, e->buf, BYTES);
	memset(e->buf, 0, BYTES);
	tell(queue->fd, KEY);
	addr = hear(queue->fd);
	addr |= (uint64_t)hear(queue->fd) << 32;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = hear(queue->fd);
	wr.qp_type.xrc.remote_srqn = srqn;
	EQUAL(ibv_post_send(e->qp, &wr, &bad), 0);
	WANT_WC(e->cq, 20, IBV_WC_SUCCESS);
	CHECK(!memcmp(e->buf, sent, BYTES - 8));
	memcpy(&word, sent, sizeof(word));
	wr.wr_id = 21;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.rkey = wr.wr.rdma.rkey;
	wr.wr.atomic.remote_addr = addr;
	wr.wr.atomic.compare_add = 3;
	sge.length = 8;
	EQUAL(ibv_post_send(e->qp, &wr, &bad), 0);
	WANT_WC(e->cq, 21, IBV_WC_SUCCESS);
	CHECK(!memcmp(e->buf, &word, sizeof(word)));
	word += 3;
	EQUAL(byte_of(queue, 0), word & 0xff);
	memcpy(e->buf, sent, BYTES);
	free(sent);
}

static struct ibv_qp *open_target(struct ibv_context *ctx, struct ibv_xrcd *domain, uint32_t number)
{
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					.qp_num = number, .xrcd = domain, .qp_type = IBV_QPT_XRC_RECV};

	return ibv_open_qp(ctx, &attr);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void post(struct process *p, uint32_t id)
{
	tell(p->fd, POST);
	tell(p->fd, id);
	hear(p->fd);
}

static void delivered(struct process *p, uint32_t id, uint32_t bytes, uint32_t qpn, uint32_t imm)
{
	tell(p->fd, POLL);
	EQUAL(hear(p->fd), id);
	EQUAL(hear(p->fd), IBV_WC_SUCCESS);
	EQUAL(hear(p->fd), bytes);
	EQUAL(hear(p->fd), qpn);
	EQUAL(hear(p->fd), imm);
}

int main(void)
{
	struct process queue, target, child;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_context *ctx;
	struct ibv_async_event event;
	struct ibv_xrcd *mine;
	struct ibv_qp *opened;
	uint32_t srqn, qpn;
	struct ibv_wc wc;
	char path[64];
	struct end e;

	MUST((file = memfd_create("domain", MFD_CLOEXEC)) >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	MUST((file = open(path, O_RDONLY | O_CLOEXEC)) >= 0); /* a read-only one is as good */
	queue = start(has_queue);
	srqn = hear(queue.fd);
	target = start(has_target);
	ctx = open_loopback();
	end_open(&e, ctx, NULL);
	REFUSED(open_domain(ctx, O_CREAT | O_EXCL), EINVAL);
	connect_with(&e, &target);
	EQUAL(ibv_query_qp(e.qp, &attr, IBV_QP_DEST_QPN, &init), 0);
	qpn = attr.dest_qp_num;

	for (int i = 0; i < BYTES; i++)
		e.buf[i] = (char)(i * 7 + i / 256);
	post(&queue, 1);
	send_to(&e, srqn, 1, 100, 0);
	WANT_WC(e.cq, 1, IBV_WC_SUCCESS);
	delivered(&queue, 1, 100, qpn, 0);
	EQUAL(byte_of(&queue, 99), (unsigned char)e.buf[99]);
	EQUAL(byte_of(&queue, 100), 0);
	post(&queue, 2);
	send_to(&e, srqn, 2, BYTES, 0x12345678);
	WANT_WC(e.cq, 2, IBV_WC_SUCCESS);
	delivered(&queue, 2, BYTES, qpn, 0x12345678);
	EQUAL(byte_of(&queue, BYTES - 1), (unsigned char)e.buf[BYTES - 1]);
	reads(&e, &queue, srqn);

	MUST(mine = open_domain(ctx, 0));
	REFUSED(open_target(ctx, mine, srqn + 1000), EINVAL);
	MUST(opened = open_target(ctx, mine, qpn));
	EQUAL(opened->qp_num, qpn);
	EQUAL(state_of(opened), IBV_QPS_RTR);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14};
	EQUAL(ibv_modify_qp(opened, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL); /* of its process */
	EQUAL(ibv_modify_qp(opened, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), 0);
	EQUAL(state_of(opened), IBV_QPS_RTS);
	EQUAL(ibv_destroy_qp(opened), 0);

	send_to(&e, srqn, 3, 0, 0); /* there is no receive */
	send_to(&e, srqn, 4, 50, 0);
	post(&queue, 3);
	delivered(&queue, 3, 0, qpn, 0);
	WANT_WC(e.cq, 3, IBV_WC_SUCCESS);
	post(&queue, 4);
	delivered(&queue, 4, 50, qpn, 0);
	WANT_WC(e.cq, 4, IBV_WC_SUCCESS);

	send_to(&e, srqn, 5, 50, 0); /* waits */
	killed(&queue);
	MUST(wait_wc(e.cq, &wc) == 1);
	CHECK(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_ACCESS_ERR);
	EQUAL(ibv_destroy_qp(e.qp), 0);

	tell(target.fd, 0); /* a new queue pair, and a new process */
	queue = start(has_queue);
	srqn = hear(queue.fd);
	connect_with(&e, &target);
	post(&queue, 6);
	send_to(&e, srqn, 6, 10, 0);
	WANT_WC(e.cq, 6, IBV_WC_SUCCESS);
	EQUAL(ibv_query_qp(e.qp, &attr, IBV_QP_DEST_QPN, &init), 0);
	MUST(opened = open_target(ctx, mine, attr.dest_qp_num));
	killed(&target);
	EQUAL(ibv_get_async_event(ctx, &event), 0);
	EQUAL(event.event_type, IBV_EVENT_QP_FATAL);
	CHECK(event.element.qp == opened);
	ibv_ack_async_event(&event);
	EQUAL(state_of(opened), IBV_QPS_ERR);
	EQUAL(ibv_destroy_qp(opened), 0);
	EQUAL(ibv_close_xrcd(mine), 0);
	send_to(&e, srqn, 7, 10, 0);
	MUST(wait_wc(e.cq, &wc) == 1);
	EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	EQUAL(ibv_destroy_qp(e.qp), 0);

	/* The process with the queue is as it was: another target serves it. */
	target = start(has_target);
	connect_with(&e, &target);
	post(&queue, 8);
	EQUAL(ibv_query_qp(e.qp, &attr, IBV_QP_DEST_QPN, &init), 0);
	send_to(&e, srqn, 8, 10, 0);
	WANT_WC(e.cq, 8, IBV_WC_SUCCESS);
	tell(queue.fd, POLL);
	EQUAL(hear(queue.fd), 6);
	for (int i = 0; i < 4; i++)
		hear(queue.fd);
	delivered(&queue, 8, 10, attr.dest_qp_num, 0);
	EQUAL(ibv_destroy_qp(e.qp), 0);

	/* No process is left in the domain, and a child is in none. */
	killed(&target);
	killed(&queue);
	REFUSED(open_domain(ctx, 0), EAGAIN);
	MUST(mine = open_domain(ctx, O_CREAT | O_EXCL));
	child = start(idle);
	EQUAL(ibv_close_xrcd(mine), 0);
	MUST(mine = open_domain(ctx, O_CREAT | O_EXCL));
	killed(&child);
	EQUAL(ibv_close_xrcd(mine), 0);
	e.qp = NULL;
	end_close(&e, 1);
	return finish(ctx);
}
