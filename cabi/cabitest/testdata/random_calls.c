/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random calls of verbs and of the connection manager, in their right and their wrong states.
 * Several threads make them at once, with signals among them and forks, and with arguments that
 * rdma-core survives:
 *
 *	random_calls SEED [MILLISECONDS]
 *
 * Nothing may crash or hang, and no byte beside registered memory may change. In the end all can be
 * destroyed and an honest connection works. Calls are chosen by the seed; how threads meet is not.
 * Calls that rdma-core does not survive are not tried: objects are destroyed by one thread when no
 * other makes a call with them.
 */
#include "random_make.h"
#include "random_newer.h"
#include "random_use.h"
#include "random_cm.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define FORKS 6 /* each loads an engine of its own */
#define HUNG_SECONDS 120

static int forks_left = FORKS; /* guarded by mu */
static atomic_bool over;

/* -- forks ------------------------------------------------------------------------------- */

/* A message from one end to the other, right and whole; iWARP needs a connection for it. */
static void honest(void)
{
	struct ibv_context *ctx = open_loopback();
	struct end a, b;

	if (ctx->device->transport_type == IBV_TRANSPORT_IWARP) {
		EQUAL(ibv_close_device(ctx), 0);
		return;
	}
	pair(&a, &b, ctx, IBV_QPT_RC);
	memset(a.buf, 'x', BYTES);
	EQUAL(post_recv(&b, 1, 0, BYTES), 0);
	EQUAL(post_send(&a, 2, 0, BYTES), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, b.buf, BYTES));
	unpair(&a, &b);
	EQUAL(ibv_close_device(ctx), 0);
}

static void some_call(void);

/* In a child all objects are dead; calls with them return, and new ones work. */
__attribute__((noreturn)) static void in_child(void)
{
	alarm(HUNG_SECONDS / 2);
	for (int i = 0; i < 200; i++)
		some_call();
	if (one_in(2))
		honest();
	if (one_in(2))
		exit(failures != 0);
	_exit(failures != 0);
}

static void fork_once(void)
{
	int status;
	pid_t pid;

	if (!one_in(50))
		return;
	pthread_rwlock_wrlock(&cm_events); /* an event would stay unacknowledged in the child */
	pthread_mutex_lock(&mu);
	if (!forks_left) {
		pthread_mutex_unlock(&mu);
		pthread_rwlock_unlock(&cm_events);
		return;
	}
	forks_left--;
	pid = fork();
	if (!pid) {
		child = 1;
		forks_left = 0;
		for (int k = 0; k < KINDS; k++)
			for (int i = 0; i < PLACES; i++)
				objects[k][i].going = objects[k][i].going || objects[k][i].uses; /* another thread is at it */
		pthread_mutex_unlock(&mu);
		cm_events = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER; /* it counts threads that wait */
		in_child();
	}
	pthread_mutex_unlock(&mu);
	pthread_rwlock_unlock(&cm_events);
	MUST(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	if (status)
		failed(__FILE__, __LINE__, "a child ended with status %#x", status);
}

/* -- the threads --------------------------------------------------------------------------- */

static void drop_one(void)
{
	drop((enum kind)below(KINDS));
}

static void some_call(void)
{
	static const struct {
		const char *name;
		void (*make)(void);
		uint32_t weight;
	} all[] = {
		{"make_pd", make_pd, 2}, {"make_mr", make_mr, 6}, {"make_mw", make_mw, 2}, {"make_channel", make_channel, 2},
		{"make_cq", make_cq, 4}, {"make_srq", make_srq, 3}, {"make_xrcd", make_xrcd, 1}, {"make_qp", make_qp, 8},
		{"make_ah", make_ah, 2}, {"drop_one", drop_one, 8}, {"call_qp", call_qp, 60}, {"call_cq", call_cq, 20},
		{"call_cqx", call_cqx, 10}, {"call_srq", call_srq, 8}, {"call_mr", call_mr, 3}, {"take_events", take_events, 8},
		{"query", query, 2}, {"remap", remap, 1}, {"fork_once", fork_once, 2},
		{"make_events", make_events, 2}, {"make_id", make_id, 20}, {"call_id", call_id, 60}, {"take_cm_events", take_cm_events, 20},
		{"make_dm", make_dm, 2}, {"call_dm", call_dm, 4}, {"call_regions", call_regions, 3}, {"make_parent", make_parent, 2},
		{"call_import", call_import, 1}, {"call_handles", call_handles, 1}, {"make_counter", make_counter, 2},
		{"call_counter", call_counter, 4}, {"make_wq", make_wq, 4}, {"call_wq", call_wq, 6}, {"make_table", make_table, 2},
		{"make_rss", make_rss, 1}, {"make_raw", make_raw, 2}, {"make_flow", make_flow, 4}, {"call_newer", call_newer, 6},
	};
	uint32_t sum = 0, at;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sum += all[i].weight;
	at = below(sum);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (at < all[i].weight) {
			self->call = all[i].name;
			wild = one_in(4);
			all[i].make();
			break;
		}
		at -= all[i].weight;
	}
	self->calls++;
}

static void *work(void *arg)
{
	self = arg;
	while (!over)
		some_call();
	self->call = "the end";
	return NULL;
}

static struct worker workers[THREADS + 1];

/* A handler as applications have: it uses some stack, and leaves errno alone. */
static void on_signal(int number)
{
	volatile char room[2048];

	room[0] = (char)number;
	(void)room[0];
}

static void on_hung(int number)
{
	char line[200];

	(void)number;
	for (int i = 0; i <= THREADS; i++) {
		int n = snprintf(line, sizeof(line), "hung: thread %d is at %s after %llu calls\n", i, workers[i].call, (unsigned long long)workers[i].calls);

		if (write(2, line, (size_t)n) != n)
			break;
	}
	_exit(3);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	long long ms = argc > 2 ? atoll(argv[2]) : 2000, end = now_ms() + ms;
	struct sigaction restart = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, interrupt = {.sa_handler = on_signal}, hung = {.sa_handler = on_hung};

	MUST(!sigaction(SIGUSR1, &restart, NULL) && !sigaction(SIGUSR2, &interrupt, NULL) && !sigaction(SIGALRM, &hung, NULL));
	alarm(HUNG_SECONDS);
	memory = mmap(NULL, GUARD + (size_t)AREAS * (AREA + GUARD), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	passing = mmap(NULL, GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED && passing != MAP_FAILED);
	memset(memory, PATTERN, GUARD + (size_t)AREAS * (AREA + GUARD));
	for (int i = 0; i < CONTEXTS; i++) {
		contexts[i] = open_loopback();
		MUST(fcntl(contexts[i]->async_fd, F_SETFL, O_NONBLOCK) == 0);
	}
	for (int i = 0; i <= THREADS; i++)
		workers[i].state = (seed + 1) * 0x9e3779b97f4a7c15 + (uint64_t)i * 0xbf58476d1ce4e5b9;
	self = &workers[THREADS];
	self->call = "signals";
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	while (now_ms() < end || !succeeded || !connected || forks_left == FORKS) {
		pthread_kill(workers[below(THREADS)].thread, one_in(2) ? SIGUSR1 : SIGUSR2);
		usleep(200);
	}
	over = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);

	/* Objects built on others go first. */
	static const enum kind order[] = {ID, EVENTS, FLOW, QP, TABLE, WQ, AH, SRQ, MW, MR, DM, CNTR, COUNTERS, CQ, CQX, CHANNEL, XRCD, PARENT, TD, PD};

	int err;

	self->call = "destroying";
	for (int i = 0; i < PLACES; i++)
		for (int g = 0; objects[QP][i].object && g < GROUPS; g++)
			while (!ibv_detach_mcast(objects[QP][i].object, &groups[g], 0))
				;
	for (size_t k = 0; k < KINDS; k++)
		for (int i = 0; i < PLACES; i++)
			if (objects[order[k]][i].object && (err = destroy(order[k], objects[order[k]][i].object)))
				failed(__FILE__, __LINE__, "destroying an object of kind %d at the end: %s", order[k], strerror(err));
	for (int i = 0; i < CONTEXTS; i++)
		EQUAL(ibv_close_device(contexts[i]), 0);
	check_guards();
	self->call = "honest work";
	honest();
	uint64_t calls = 0;

	for (int i = 0; i < THREADS; i++)
		calls += workers[i].calls;
	printf("%llu calls, %llu work requests succeeded, %d connections, %d forks\n", (unsigned long long)calls,
	       (unsigned long long)succeeded, connected, FORKS - forks_left);
	if (failures)
		fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	return failures != 0;
}
