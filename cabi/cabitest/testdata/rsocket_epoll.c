/* SPDX-License-Identifier: BSD-2-Clause */
/* repoll_create, repoll_ctl and repoll_wait: sets with rsockets and other descriptors. */
#include "rsocket.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct epoll_event got[4];

/* Waits for one event, and checks what it is. */
static void want(int set, int timeout, uint64_t data, uint32_t events)
{
	CHECK(repoll_wait(set, got, 4, timeout) == 1);
	CHECK(got[0].data.u64 == data && got[0].events == events);
}

static void members(int ends[2])
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 42 };
	int pipes[2], set = repoll_create(EPOLL_CLOEXEC);
	char byte;

	CHECK(set >= 0 && fcntl(set, F_GETFD) == FD_CLOEXEC);
	CHECK(pipe(pipes) == 0);
	CHECK(repoll_wait(set, got, 4, 0) == 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
	event.data.u64 = 43;
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event) == 0);
	CHECK(repoll_wait(set, got, 4, 30) == 0);

	CHECK(write(pipes[1], "p", 1) == 1);
	want(set, -1, 43, EPOLLIN);
	CHECK(rsend(ends[0], "r", 1, 0) == 1);
	struct pollfd fd = { .fd = ends[1], .events = POLLIN };

	CHECK(rpoll(&fd, 1, 30000) == 1);
	CHECK(repoll_wait(set, got, 4, -1) == 2 && got[0].data.u64 + got[1].data.u64 == 85);
	CHECK(repoll_wait(set, got, 1, -1) == 1); /* there is room for one only */
	CHECK(read(pipes[0], &byte, 1) == 1);
	want(set, -1, 42, EPOLLIN);

	/* Level-triggered, then with one shot. */
	event = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.u64 = 44 };
	CHECK(repoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event) == 0);
	want(set, 30000, 44, EPOLLIN | EPOLLOUT);
	CHECK(repoll_wait(set, got, 4, 30) == 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event) == 0);
	want(set, 0, 44, EPOLLIN | EPOLLOUT);
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'r');
	CHECK(repoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL) == 0);
	CHECK(repoll_ctl(set, EPOLL_CTL_DEL, pipes[0], NULL) == 0);
	CHECK(write(pipes[1], "p", 1) == 1);
	CHECK(repoll_wait(set, got, 4, 0) == 0);

	CHECK_FAILS(repoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL), ENOENT);
	CHECK_FAILS(repoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event), ENOENT);
	CHECK_FAILS(repoll_ctl(set, EPOLL_CTL_ADD, ends[1], NULL), EFAULT);
	CHECK_FAILS(repoll_ctl(set, 77, ends[1], &event), EINVAL);
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
	CHECK_FAILS(repoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event), EEXIST);
	CHECK_FAILS(repoll_ctl(set, EPOLL_CTL_ADD, -1, &event), EBADF);
	CHECK_FAILS(repoll_ctl(pipes[0], EPOLL_CTL_ADD, ends[1], &event), EINVAL);
	CHECK_FAILS(repoll_wait(set, got, 0, 0), EINVAL);
	CHECK_FAILS(repoll_wait(set, NULL, 1, 0), EINVAL);
	CHECK_FAILS(repoll_wait(pipes[0], got, 1, 0), EINVAL);
	CHECK_FAILS(repoll_create(77 << 20), EINVAL);
	CHECK(rclose(set) == 0);
	CHECK_FAILS(rclose(set), EBADF);
	CHECK_FAILS(repoll_wait(set, got, 1, 0), EINVAL);
	close(pipes[0]);
	close(pipes[1]);
}

/* An rsocket that is closed leaves its sets. */
static void closed(const char *address)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT };
	int ends[2], set = repoll_create(0);

	rs_pair(address, ends);
	CHECK(repoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
	want(set, -1, 0, EPOLLOUT);
	rs_close_pair(ends);
	CHECK(repoll_wait(set, got, 4, 0) == 0);
	CHECK(rclose(set) == 0);
}

enum { THREADS = 4, ROUNDS = 200 };

static int shared;

/* Waits for an event in a set that has no member when the wait begins. */
static void *wait_for_member(void *arg)
{
	struct epoll_event one;

	for (int i = 0; i < ROUNDS; i++)
		CHECK(repoll_wait(shared, &one, 1, -1) == 1 && one.data.ptr == arg);
	return NULL;
}

static void *wait_until_closed(void *arg)
{
	struct epoll_event one;

	CHECK(repoll_wait(shared, &one, 1, -1) == -1);
	CHECK(errno == EBADF || errno == EINVAL); /* closed meanwhile, or before */
	return arg;
}

static void *wait_until_cancelled(void *arg)
{
	struct epoll_event one;

	repoll_wait(shared, &one, 1, -1);
	return arg;
}

/* What another thread does to a set reaches those that wait. */
static void several_threads(int ends[2])
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = &shared };
	pthread_t threads[THREADS], other;
	void *result;

	CHECK((shared = repoll_create(0)) >= 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, wait_for_member, &shared) == 0);
	for (int i = 0; i < ROUNDS; i++) { /* it is there for a while only */
		CHECK(repoll_ctl(shared, EPOLL_CTL_ADD, ends[0], &event) == 0);
		CHECK(repoll_ctl(shared, EPOLL_CTL_DEL, ends[0], NULL) == 0);
	}
	CHECK(repoll_ctl(shared, EPOLL_CTL_ADD, ends[0], &event) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(repoll_ctl(shared, EPOLL_CTL_DEL, ends[0], NULL) == 0);

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, wait_until_cancelled, NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_cancel(threads[i]) == 0);
		CHECK(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED);
	}
	CHECK(repoll_ctl(shared, EPOLL_CTL_ADD, ends[0], &event) == 0);
	want(shared, 0, (uint64_t)(uintptr_t)&shared, EPOLLOUT);
	CHECK(repoll_ctl(shared, EPOLL_CTL_DEL, ends[0], NULL) == 0);

	CHECK(rclose(shared) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK((shared = repoll_create(0)) >= 0);
		CHECK(pthread_create(&other, NULL, wait_until_closed, NULL) == 0);
		if (i % 2)
			CHECK(repoll_wait(shared, got, 1, 1) == 0);
		CHECK(rclose(shared) == 0);
		CHECK(pthread_join(other, NULL) == 0);
	}
}

/* Returns whether a thread of this process sleeps. */
static int sleeps(pid_t thread)
{
	char path[64], line[256], *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	CHECK((f = fopen(path, "r")) && fgets(line, sizeof(line), f) && fclose(f) == 0);
	CHECK((end = strrchr(line, ')')));
	return end[2] == 'S';
}

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static _Atomic pid_t forks_waiter;

static void *wait_over_fork(void *arg)
{
	forks_waiter = (pid_t)syscall(SYS_gettid);
	return wait_for_member(arg);
}

/* Has an rsocket of this process take the place of one of the parent. */
static void replace(int parents)
{
	int lowest;

	CHECK(rsocket(AF_INET, SOCK_STREAM, 0) >= 0); /* it opens what the next ones use */
	CHECK(rclose(parents) == 0);
	while ((lowest = dup(0)) < parents)
		CHECK(lowest >= 0);
	CHECK(lowest == parents && close(lowest) == 0);
	CHECK(rsocket(AF_INET, SOCK_STREAM, 0) == parents);
}

/* A child of a fork can close the sets of its parent, whose threads do not notice. */
static void forked(int ends[2])
{
	struct epoll_event event = { .events = EPOLLPRI, .data.ptr = &shared };
	int status, changed = 0, was_open[256];
	struct pollfd wakes;
	pthread_t thread;
	pid_t child;

	for (int fd = 0; fd < 256; fd++)
		was_open[fd] = is_open(fd);
	CHECK((shared = repoll_create(0)) >= 0);
	for (int fd = 0; fd < 256; fd++) /* what wakes the threads that wait */
		changed = fd != shared && !was_open[fd] && is_open(fd) ? fd : changed;
	CHECK(changed);
	CHECK(repoll_ctl(shared, EPOLL_CTL_ADD, ends[0], &event) == 0);
	CHECK(pthread_create(&thread, NULL, wait_over_fork, &shared) == 0);
	while (!forks_waiter || !sleeps(forks_waiter))
		sched_yield();

	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_FAILS(repoll_ctl(shared, EPOLL_CTL_ADD, 0, &event), EINVAL);
		CHECK_FAILS(repoll_wait(shared, got, 1, 0), EINVAL);
		replace(ends[0]);
		CHECK(rclose(ends[0]) == 0); /* the number of a member */
		CHECK(rclose(shared) == 0);
		CHECK(!is_open(shared) && !is_open(changed));
		CHECK_FAILS(rclose(shared), EBADF);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	wakes = (struct pollfd){ .fd = changed, .events = POLLIN };
	CHECK(poll(&wakes, 1, 0) == 0); /* it would be readable for ever */
	event.events = EPOLLOUT;
	CHECK(repoll_ctl(shared, EPOLL_CTL_MOD, ends[0], &event) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(rclose(shared) == 0);
}

int main(int argc, char **argv)
{
	int ends[2];

	(void)argc;
	rs_pair(argv[1], ends);
	members(ends);
	several_threads(ends);
	forked(ends);
	rs_close_pair(ends);
	closed(argv[1]);
	return 0;
}
