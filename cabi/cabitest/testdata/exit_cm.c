/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, each the only one at its address, one of which ends as most
 * programs do, without a word, or is killed: its peer learns of it at once.
 *
 *	exit_cm listen ADDRESS [END]                 prints its port
 *	exit_cm connect ADDRESS [END] PEER PORT
 *
 * END is the action of the process: "established" exits with its connection, "signal" in a handler
 * of a signal. "request" exits with a request that it has not answered, "thread" while another
 * thread polls; "killed" is killed; "crashes" is killed also where it is process 1, which cannot
 * kill itself. Without END it is the peer, which prints the events.
 */
#include "cm.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* A lost message is repeated after 4 s. A TRP client believes a refusal after 1.5 s. */
#define PROMPT_MS 3500

static struct rdma_event_channel *channel;
static const char *ends;

static int ends_with(const char *how)
{
	return ends && strcmp(ends, how) == 0;
}

static volatile sig_atomic_t children_ended;

static void on_child(int sig)
{
	(void)sig;
	children_ended++;
}

/* Is killed. Whatever speaks for it afterwards, it has no child. */
static void be_killed(void)
{
	errno = 0;
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
	CHECK(!children_ended);
	raise(SIGKILL);
}

static void crash(void)
{
	CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) == 0);
	__builtin_trap();
}

static void on_signal(int sig)
{
	(void)sig;
	exit(0);
}

static void *poll_for_ever(void *arg)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(arg, 1, &wc) == 0)
		;
	fprintf(stderr, "a completion: %s\n", ibv_wc_status_str(wc.status));
	_exit(1);
}

/* Ends the process, or prints events until the connection is over. */
static int end(struct rdma_cm_id *id)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	pthread_t thread;

	if (ends_with("thread"))
		CHECK(pthread_create(&thread, NULL, poll_for_ever, id->recv_cq) == 0);
	if (ends_with("signal")) {
		struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }; /* as devshim/signal.c makes all */

		CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
		raise(SIGUSR1);
	}
	if (ends_with("killed"))
		be_killed();
	if (ends_with("crashes"))
		crash();
	if (ends)
		return 0;
	do {
		if (poll(&fd, 1, PROMPT_MS) != 1) {
			puts("nothing more");
			return 0;
		}
		CHECK(rdma_get_cm_event(channel, &event) == 0);
		type = event->event;
		puts(rdma_event_str(type));
		CHECK(rdma_ack_cm_event(event) == 0);
	} while (type == RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

static int serve(const char *addr)
{
	struct rdma_cm_id *id = test_listen(channel, addr, RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_event *event;

	printf("%d\n", ntohs(rdma_get_src_port(id)));
	fflush(stdout);
	event = test_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	if (ends_with("request"))
		return 0;
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_accept(id, NULL) == 0);
	if (ends)
		test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	return end(id);
}

static int connect_to(const char *from, const char *peer, int port)
{
	struct sockaddr_in src = test_addr(from, 0), dst = test_addr(peer, port);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 2000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, 2000) == 0);
	test_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, NULL) == 0);
	if (ends)
		test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	return end(id);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
	channel = rdma_create_event_channel();
	CHECK(channel);
	if (strcmp(argv[1], "listen") == 0) {
		ends = argv[3]; /* NULL without */
		return serve(argv[2]);
	}
	if (argc == 6)
		ends = argv[3];
	return connect_to(argv[2], argv[argc - 2], atoi(argv[argc - 1]));
}
