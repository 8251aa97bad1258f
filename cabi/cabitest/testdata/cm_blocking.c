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
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Returns whether a descriptor of the process is one of that file. */
static int is_open(const struct stat *file)
{
	for (int fd = 0; fd < getdtablesize(); fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino)
			return 1;
	}
	return 0;
}

/* One of the threads handles the messages. The descriptor of the channel goes with the channel. */
static void cancelled(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	pthread_t threads[THREADS];
	struct stat file;
	void *result;

	CHECK(fstat(channel->fd, &file) == 0 && is_open(&file));
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_waiter(channel);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_cancel(threads[i]) == 0 && pthread_join(threads[i], &result) == 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	check_works();
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(channel);
	CHECK(!is_open(&file));
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

/* Returns the system call in which a thread of the process is, -1 while it runs. */
static long system_call(pid_t thread)
{
	char path[64], line[512] = "";
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	sscanf(line, "%ld", &number);
	return number;
}

static int waits_in_epoll(pid_t thread)
{
	long number = system_call(thread);

#ifdef SYS_epoll_wait
	if (number == SYS_epoll_wait)
		return 1;
#endif
	return number == SYS_epoll_pwait;
}

static pthread_t first; /* the thread of main */

static void *signal_the_wait(void *unused)
{
	while (!waits_in_epoll(getpid()))
		sched_yield();
	CHECK(pthread_kill(first, SIGUSR1) == 0);
	return unused;
}

/*
 * The thread must not jump out of the engine. So it waits before there are connections: no message
 * comes.
 */
static void jumped_out(void)
{
	static pthread_t signaller;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	struct rdma_cm_event *event;

	handle(SIGUSR1, jump, 0);
	CHECK(pthread_create(&signaller, NULL, signal_the_wait, NULL) == 0);
	if (sigsetjmp(back, 1) == 0) {
		rdma_get_cm_event(channel, &event);
		CHECK(!"an event");
	}
	CHECK(pthread_join(signaller, NULL) == 0);
	handle(SIGUSR1, SIG_DFL, 0);
	check_works();
	(void)listener; /* the thread counts as one in the call */
}

static atomic_int returned;

/* A signal that comes while the thread is in the engine does not end the call. */
static void *signal_until_it_returns(void *unused)
{
	while (!returned) {
		if (sleeps(getpid()))
			CHECK(pthread_kill(first, SIGUSR1) == 0);
		sched_yield();
	}
	return unused;
}

/* A signal ends the wait only where its handler lacks SA_RESTART. */
static void interrupted(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = test_listen(channel, address, RDMA_PS_TCP);
	struct server s = { .channel = channel, .listener = listener, .peers = 1 };
	pthread_t client = 0, signaller;
	struct rdma_cm_event *event;
	pid_t parent = getpid(), child;

	handle(SIGUSR1, ignore, 0);
	CHECK(pthread_create(&signaller, NULL, signal_until_it_returns, NULL) == 0);
	CHECK_FAILS(rdma_get_cm_event(channel, &event), EINTR);
	returned = 1;
	CHECK(pthread_join(signaller, NULL) == 0);
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
	first = pthread_self();
	alarm(120);
	jumped_out();
	check_works();
	several();
	polled();
	interrupted();
	cancelled();
	destroyed();
	several();
	return 0;
}
