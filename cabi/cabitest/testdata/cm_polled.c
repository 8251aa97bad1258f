/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that polls asks its O_NONBLOCK channel for an event again and again, as libfabric
 * does. While there is none that takes one system call, read. The channel may become a blocking one
 * later.
 */
#include "cm.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOOKS 100

static volatile sig_atomic_t calls; /* system calls, but for read and the end of the handler */

static void count(int sig)
{
	(void)sig;
	calls++;
}

/* Has each system call of the thread raise SIGSYS instead, except read. */
static void trap(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(f) / sizeof(*f), .filter = f };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int others;	     /* results other than EAGAIN */
static sig_atomic_t looking; /* system calls of the looks, but for read */

static void *look(void *channel)
{
	struct rdma_cm_event *event;

	CHECK_FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	trap();
	for (int i = 0; i < LOOKS; i++)
		others += rdma_get_cm_event(channel, &event) != -1 || errno != EAGAIN;
	looking = calls;
	syscall(SYS_getpid); /* it does count */
	syscall(SYS_exit, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in in;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	int flags;

	CHECK(argc == 2);
	CHECK(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	flags = fcntl(channel->fd, F_GETFL);
	CHECK(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
	CHECK(signal(SIGSYS, count) != SIG_ERR);
	CHECK(pthread_create(&thread, NULL, look, channel) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(others == 0 && looking == 0 && calls == 1);

	/* A blocking channel waits. */
	CHECK(fcntl(channel->fd, F_SETFL, flags) == 0);
	in = test_addr(argv[1], 7471);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);

	/* And again not. */
	CHECK(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
	CHECK_FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	CHECK_FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
