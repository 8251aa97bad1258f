/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that block in rdma_get_cm_event, which handle the messages of connection managers
 * themselves: a thread that is cancelled there, one that a signal handler takes out, one whose
 * channel is destroyed, and several on channels of their own. Afterwards connections are set up as
 * before, also while no thread waits there.
 */
#define _GNU_SOURCE
#include "cm.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 50
#define THREADS 4

static const char *address;
static struct rdma_conn_param reliable = { .retry_count = 7, .rnr_retry_count = 7 };

static void connect_to(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = test_resolve(channel, address, listener);
	struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(rdma_connect(id, &reliable) == 0);
	test_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_disconnect(id) == 0);
	test_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
}

/* Serves a listener's channel until a number of peers have left. */
static void serve(struct rdma_event_channel *channel, int peers)
{
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *event;

	while (peers > 0) {
		struct rdma_cm_id *gone = NULL;

		CHECK(rdma_get_cm_event(channel, &event) == 0);
		switch (event->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			attr = test_qp(IBV_QPT_RC);
			CHECK(rdma_create_qp(event->id, NULL, &attr) == 0);
			CHECK(rdma_accept(event->id, &reliable) == 0);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			gone = event->id;
			break;
		default:
			break;
		}
		CHECK(rdma_ack_cm_event(event) == 0);
		if (gone) {
			rdma_disconnect(gone);
			rdma_destroy_qp(gone);
			CHECK(rdma_destroy_id(gone) == 0);
			peers--;
		}
	}
}

struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int peers;
	pthread_t thread;
};

static void *run_server(void *arg)
{
	struct server *s = arg;

	serve(s->channel, s->peers);
	return NULL;
}

static void start(struct server *s, int peers)
{
	CHECK(s->channel = rdma_create_event_channel());
	s->listener = test_listen(s->channel, address, RDMA_PS_TCP);
	s->peers = peers;
	CHECK(pthread_create(&s->thread, NULL, run_server, s) == 0);
}

static void stop(struct server *s)
{
	CHECK(pthread_join(s->thread, NULL) == 0);
	CHECK(rdma_destroy_id(s->listener) == 0);
	rdma_destroy_event_channel(s->channel);
}

static void *run_clients(void *arg)
{
	struct server *s = arg;
	struct rdma_event_channel *channel = rdma_create_event_channel();

	for (int i = 0; i < s->peers; i++)
		connect_to(channel, s->listener);
	rdma_destroy_event_channel(channel);
	return NULL;
}

/* Connects often to a server with a thread of its own. */
static void check_works(void)
{
	struct server s;

	start(&s, CONNECTIONS);
	run_clients(&s);
	stop(&s);
}

static void several(void)
{
	struct server servers[THREADS];
	pthread_t clients[THREADS];

	for (int i = 0; i < THREADS; i++)
		start(&servers[i], CONNECTIONS);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&clients[i], NULL, run_clients, &servers[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(clients[i], NULL) == 0);
		stop(&servers[i]);
	}
}

/* Returns whether a thread sleeps, as far as the system says. */
static int sleeps(pid_t thread)
{
	char path[64], line[512] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", thread);
	f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	state = strrchr(line, ')');
	return state && state[2] == 'S';
}

static _Atomic pid_t waiter;

static void *wait_for_ever(void *channel)
{
	struct rdma_cm_event *event;

	waiter = gettid();
	rdma_get_cm_event(channel, &event);
	return NULL;
}

/* Starts a thread that waits for a channel without events. */
static pthread_t start_waiter(struct rdma_event_channel *channel)
{
	pthread_t thread;

	waiter = 0;
	CHECK(pthread_create(&thread, NULL, wait_for_ever, channel) == 0);
	while (!waiter || !sleeps(waiter))
		sched_yield();
	return thread;
}

static void cancelled(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	pthread_t thread = start_waiter(channel);
	void *result;

	CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	check_works();
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
}

/* Its thread waits for ever, as with rdma-core. */
static void destroyed(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);

	start_waiter(channel);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	check_works();
}

static sigjmp_buf back;

static void jump(int sig)
{
	siglongjmp(back, sig);
}

static void ignore(int sig)
{
	(void)sig;
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags };

	CHECK(sigaction(sig, &act, NULL) == 0);
}

/* The alarm may come before the thread waits, too. */
static void jumped_out(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	struct rdma_cm_event *event;

	handle(SIGUSR1, jump, 0);
	if (sigsetjmp(back, 1) == 0) {
		pid_t parent = getpid(), child = fork();

		if (child == 0) {
			while (!sleeps(parent))
				sched_yield();
			_exit(kill(parent, SIGUSR1));
		}
		rdma_get_cm_event(channel, &event);
		CHECK(!"an event");
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	handle(SIGUSR1, SIG_DFL, 0);
	check_works();
	(void)listener; /* the thread counts as one in the call */
}

/* A signal ends the wait only where its handler lacks SA_RESTART. */
static void interrupted(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	struct server s = { .channel = channel, .listener = listener, .peers = 1 };
	pthread_t client = 0;
	struct rdma_cm_event *event;
	pid_t parent = getpid(), child;

	handle(SIGUSR1, ignore, 0);
	child = fork();
	if (child == 0) {
		while (!sleeps(parent))
			sched_yield();
		_exit(kill(parent, SIGUSR1));
	}
	CHECK_FAILS(rdma_get_cm_event(channel, &event), EINTR);
	while (waitpid(child, NULL, 0) < 0)
		;
	handle(SIGUSR1, ignore, SA_RESTART);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 20; i++) {
			while (!sleeps(parent))
				sched_yield();
			kill(parent, SIGUSR1);
		}
		_exit(0);
	}
	CHECK(pthread_create(&client, NULL, run_clients, &s) == 0);
	serve(channel, 1);
	CHECK(pthread_join(client, NULL) == 0);
	while (waitpid(child, NULL, 0) < 0)
		;
	handle(SIGUSR1, SIG_DFL, 0);
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
}

/* The server waits in poll(2), and its channel does not block. */
static void polled(void)
{
	struct server s = { .channel = rdma_create_event_channel(), .peers = 1 };
	struct rdma_cm_event *event;
	int accepted = 0, gone = 0;
	pthread_t client;

	s.listener = test_listen(s.channel, address, RDMA_PS_TCP);
	CHECK(fcntl(s.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK_FAILS(rdma_get_cm_event(s.channel, &event), EAGAIN);
	CHECK(pthread_create(&client, NULL, run_clients, &s) == 0);
	while (!gone) {
		struct rdma_cm_id *id = NULL;
		struct ibv_qp_init_attr attr = test_qp(IBV_QPT_RC);

		test_wait(s.channel);
		CHECK(rdma_get_cm_event(s.channel, &event) == 0);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			CHECK(rdma_create_qp(event->id, NULL, &attr) == 0);
			CHECK(rdma_accept(event->id, &reliable) == 0);
			accepted++;
		} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			id = event->id;
		}
		CHECK(rdma_ack_cm_event(event) == 0);
		if (id) {
			rdma_destroy_qp(id);
			CHECK(rdma_destroy_id(id) == 0);
			gone = 1;
		}
	}
	CHECK(accepted == 1 && pthread_join(client, NULL) == 0);
	CHECK(rdma_destroy_id(s.listener) == 0);
	rdma_destroy_event_channel(s.channel);
}

int main(int argc, char **argv)
{
	address = argc > 1 ? argv[1] : "127.0.0.1";
	alarm(120);
	check_works();
	several();
	polled();
	interrupted();
	cancelled();
	destroyed();
	jumped_out();
	several();
	return 0;
}
