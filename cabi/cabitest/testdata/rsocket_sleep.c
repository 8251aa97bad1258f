/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep in calls on rsockets: what a message costs them, signals, cancellation, many
 * threads at once. The program counts its own calls of the C library.
 */
#define _GNU_SOURCE
#include "rsocket.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- calls of the C library, by a thread that is being watched -------------------------- */

struct calls {
	atomic_uint sleeps; /* poll with a time limit other than 0 */
	atomic_uint others;
};

static _Thread_local struct calls *mine; /* NULL: not watched */

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (!real)
		real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	if (mine)
		atomic_fetch_add(timeout ? &mine->sleeps : &mine->others, 1);
	return real(fds, count, timeout);
}

int epoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
	if (mine)
		atomic_fetch_add(&mine->others, 1);
	return epoll_pwait(set, events, most, timeout, NULL);
}

int fcntl(int fd, int command, ...)
{
	static int (*real)(int, int, ...);
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	if (!real)
		real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	if (mine)
		atomic_fetch_add(&mine->others, 1);
	return real(fd, command, argument);
}

static void until_asleep(struct calls *calls, unsigned sleeps)
{
	while (atomic_load(&calls->sleeps) < sleeps)
		sched_yield();
}

/* -- what a message costs ---------------------------------------------------------------- */

enum { MESSAGES = 300 };

/* Answers each message when the peer sleeps. */
static void answer(const char *arg, struct calls *peer, int port)
{
	struct sockaddr_in addr;
	int listener = rs_listener(arg, &addr, 1);
	char byte;

	CHECK(write(port, &addr, sizeof(addr)) == sizeof(addr));
	int s = raccept(listener, NULL, NULL);

	CHECK(s >= 0);
	for (;;) {
		unsigned before;

		CHECK(rrecv(s, &before, sizeof(before), MSG_WAITALL) >= 0);
		if (before == UINT32_MAX)
			break;
		until_asleep(peer, before + 1);
		CHECK(rsend(s, "a", 1, 0) == 1);
	}
	CHECK(rrecv(s, &byte, 1, 0) == 0);
	CHECK(rclose(s) == 0);
	CHECK(rclose(listener) == 0);
}

static void ask(int s, int by_rpoll)
{
	struct pollfd fd = { .fd = s, .events = POLLIN };
	char byte;

	for (int i = 0; i < MESSAGES; i++) {
		unsigned before = atomic_load(&mine->sleeps);

		CHECK(rsend(s, &before, sizeof(before), 0) == sizeof(before));
		if (by_rpoll)
			CHECK(rpoll(&fd, 1, -1) == 1 && fd.revents == POLLIN);
		CHECK(rrecv(s, &byte, 1, 0) == 1);
	}
}

/*
 * A message wakes the thread, which reads it. The acknowledgement of its own message may come
 * before, and wake it too.
 */
static void costs(const char *arg)
{
	struct calls *calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sockaddr_in addr;
	int pipes[2], status;

	CHECK(calls != MAP_FAILED && pipe(pipes) == 0);
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		answer(arg, calls, pipes[1]);
		_exit(0);
	}
	CHECK(read(pipes[0], &addr, sizeof(addr)) == sizeof(addr));
	int s = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(s >= 0);
	CHECK(rconnect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	for (int by_rpoll = 0; by_rpoll < 2; by_rpoll++) {
		mine = calls;
		atomic_store(&calls->sleeps, 0);
		atomic_store(&calls->others, 0);
		ask(s, by_rpoll);
		mine = NULL;
		CHECK(atomic_load(&calls->sleeps) >= MESSAGES);
		CHECK(atomic_load(&calls->sleeps) <= 2 * MESSAGES + MESSAGES / 10);
		CHECK(atomic_load(&calls->others) == 0);
	}
	unsigned end = UINT32_MAX;

	CHECK(rsend(s, &end, sizeof(end), 0) == sizeof(end));
	CHECK(rclose(s) == 0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* -- signals ------------------------------------------------------------------------------ */

struct receiver {
	int s;
	int by_rpoll;
	struct calls calls;
	ssize_t result;
	int error;
	atomic_bool done;
};

static void *receive_one(void *receiver)
{
	struct receiver *r = receiver;
	struct pollfd fd = { .fd = r->s, .events = POLLIN };
	char byte;

	mine = &r->calls;
	r->result = r->by_rpoll ? rpoll(&fd, 1, -1) : rrecv(r->s, &byte, 1, 0);
	r->error = errno;
	atomic_store(&r->done, true);
	return NULL;
}

static void nothing(int sig)
{
	(void)sig;
}

static void handle(int flags)
{
	struct sigaction act = { .sa_handler = nothing, .sa_flags = flags };

	CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
}

/* A handler without SA_RESTART ends rrecv as it ends recv(2), and rpoll in any case. */
static void interrupted(int ends[2], int flags, int by_rpoll)
{
	struct receiver r = { .s = ends[1], .by_rpoll = by_rpoll };
	pthread_t thread;

	handle(flags);
	CHECK(pthread_create(&thread, NULL, receive_one, &r) == 0);
	until_asleep(&r.calls, 1);
	while (!atomic_load(&r.done)) {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	}
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(r.result == -1 && r.error == EINTR);
}

/* With SA_RESTART rrecv goes on. */
static void restarted(int ends[2])
{
	struct receiver r = { .s = ends[1] };
	pthread_t thread;

	handle(SA_RESTART);
	CHECK(pthread_create(&thread, NULL, receive_one, &r) == 0);
	while (atomic_load(&r.calls.sleeps) < 4 && !atomic_load(&r.done)) {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	}
	CHECK(rsend(ends[0], "r", 1, 0) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(r.result == 1);
}

/* -- many threads, and cancellation --------------------------------------------------------- */

enum { THREADS = 20, ROUNDS = 20 };

static struct one {
	int ends[2];
	pthread_t thread;
	struct calls calls;
} all[THREADS];

static void *echo(void *one)
{
	struct one *o = one;
	char byte;

	mine = &o->calls;
	while (rrecv(o->ends[1], &byte, 1, 0) == 1)
		CHECK(rsend(o->ends[1], &byte, 1, 0) == 1);
	return NULL;
}

static void talk(const struct one *o, char byte)
{
	char back;

	CHECK(rsend(o->ends[0], &byte, 1, 0) == 1);
	CHECK(rrecv(o->ends[0], &back, 1, 0) == 1 && back == byte);
}

/* One thread that sleeps reads for all: when it leaves, another goes on. */
static void many_threads(const char *arg)
{
	for (int i = 0; i < THREADS; i++)
		rs_pair(arg, all[i].ends);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_create(&all[i].thread, NULL, echo, &all[i]) == 0);
		until_asleep(&all[i].calls, 1);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++)
			talk(&all[i], (char)('a' + i));
	}
	for (int i = 0; i < THREADS; i++) {
		char byte;

		CHECK(pthread_cancel(all[i].thread) == 0);
		CHECK(pthread_join(all[i].thread, NULL) == 0);
		for (int k = i + 1; k < THREADS; k++)
			talk(&all[k], 'c');
		/* The thread has left no lock and no watcher behind. */
		CHECK(rsend(all[i].ends[0], "z", 1, 0) == 1);
		CHECK(rrecv(all[i].ends[1], &byte, 1, 0) == 1 && byte == 'z');
	}
	for (int i = 0; i < THREADS; i++)
		rs_close_pair(all[i].ends);
}

static void *send_without_end(void *receiver)
{
	static char data[1 << 20];
	struct receiver *r = receiver;

	mine = &r->calls;
	rsend(r->s, data, sizeof(data), 0);
	return NULL;
}

/* Threads are cancelled that sleep in rpoll, and in rsend for a peer that does not read. */
static void cancelled(int ends[2])
{
	struct receiver r = { .s = ends[1], .by_rpoll = 1 }, w = { .s = ends[0] };
	static char data[1 << 20];
	pthread_t thread;
	size_t received = 0;
	ssize_t n;

	CHECK(pthread_create(&thread, NULL, receive_one, &r) == 0);
	until_asleep(&r.calls, 1);
	CHECK(pthread_cancel(thread) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, send_without_end, &w) == 0);
	until_asleep(&w.calls, 1);
	CHECK(pthread_cancel(thread) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(rshutdown(ends[0], SHUT_WR) == 0);
	while ((n = rrecv(ends[1], data, sizeof(data), 0)) > 0)
		received += (size_t)n;
	CHECK(n == 0 && received > 0 && received < sizeof(data));
}

/* A thread that has disabled cancellation is not cancelled in its sleep. */
static void *receive_disabled(void *receiver)
{
	int before;

	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
	receive_one(receiver);
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before) == 0);
	CHECK(before == PTHREAD_CANCEL_DISABLE);
	return NULL;
}

static void not_cancelled(int ends[2])
{
	struct receiver r = { .s = ends[1] };
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, receive_disabled, &r) == 0);
	until_asleep(&r.calls, 1);
	CHECK(pthread_cancel(thread) == 0);
	CHECK(rsend(ends[0], "n", 1, 0) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(atomic_load(&r.done) && r.result == 1);
}

/* -- rpoll with more descriptors than lie on its stack -------------------------------------- */

static void many_descriptors(const char *arg)
{
	struct pollfd fds[THREADS + 2];
	int ends[THREADS][2], pipes[2];
	char byte;

	CHECK(pipe(pipes) == 0);
	for (int i = 0; i < THREADS; i++) {
		rs_pair(arg, ends[i]);
		fds[i] = (struct pollfd){ .fd = ends[i][1], .events = POLLIN };
	}
	fds[THREADS] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	fds[THREADS + 1] = (struct pollfd){ .fd = -1, .events = POLLIN };
	CHECK(rpoll(fds, THREADS + 2, 20) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(rsend(ends[i][0], "m", 1, 0) == 1);
		CHECK(rpoll(fds, THREADS + 2, -1) == 1 && fds[i].revents == POLLIN);
		CHECK(rrecv(ends[i][1], &byte, 1, 0) == 1);
	}
	CHECK(write(pipes[1], "p", 1) == 1);
	CHECK(rpoll(fds, THREADS + 2, -1) == 1 && fds[THREADS].revents == POLLIN);
	for (int i = 0; i < THREADS; i++)
		rs_close_pair(ends[i]);
}

int main(int argc, char **argv)
{
	int ends[2];

	(void)argc;
	costs(argv[1]); /* first: it forks */
	rs_pair(argv[1], ends);
	interrupted(ends, 0, 0);
	interrupted(ends, 0, 1);
	interrupted(ends, SA_RESTART, 1);
	restarted(ends);
	not_cancelled(ends);
	cancelled(ends);
	rs_close_pair(ends);
	many_threads(argv[1]);
	many_descriptors(argv[1]);
	return 0;
}
