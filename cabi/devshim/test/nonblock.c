/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a watched descriptor never says that O_NONBLOCK is set where it is not. It says so
 * after the program has set the flag, until another call, descriptor or process may change it.
 */
#include "nonblock.h"

#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 20000

static int fd;
static const atomic_int *state;

static void watch(void)
{
	assert((fd = epoll_create1(0)) >= 0);
	assert((state = vb_nonblock_watch(fd)) && *state == VB_FLAG_UNKNOWN);
}

static void forget(void)
{
	vb_nonblock_forget(state);
	assert(close(fd) == 0);
}

static int set(int flag)
{
	return fcntl(fd, F_SETFL, flag);
}

static void by_calls(void)
{
	int on = 1, off = 0;

	watch();
	assert(set(O_NONBLOCK) == 0 && *state == VB_FLAG_SET);
	assert(fcntl(fd, F_GETFL) & O_NONBLOCK && *state == VB_FLAG_SET);
	assert(set(0) == 0 && *state == VB_FLAG_UNKNOWN);
	assert(fcntl64(fd, F_SETFL, O_NONBLOCK) == 0 && *state == VB_FLAG_SET);
	assert(ioctl(fd, FIONBIO, &off) == 0 && *state == VB_FLAG_UNKNOWN);
	assert(ioctl(fd, FIONBIO, &on) == 0 && *state == VB_FLAG_UNKNOWN);
	assert(set(O_NONBLOCK) == 0 && *state == VB_FLAG_SET);
	assert(ioctl(fd, FIONBIO, NULL) == -1 && *state == VB_FLAG_UNKNOWN);
	forget();
}

/* A call that gives the open file another descriptor. */
static void shared_by(int (*other)(void))
{
	int is;

	watch();
	assert(set(O_NONBLOCK) == 0 && *state == VB_FLAG_SET);
	is = other();
	assert(is >= 0 && *state == VB_FLAG_SHARED);
	assert(fcntl(is, F_SETFL, 0) == 0 && *state == VB_FLAG_SHARED);
	assert(set(O_NONBLOCK) == 0 && *state == VB_FLAG_SHARED);
	if (is != fd)
		assert(close(is) == 0);
	forget();
}

static int by_dup(void) { return dup(fd); }
static int by_dup2(void) { return dup2(fd, 200); }
static int by_dup3(void) { return dup3(fd, 200, O_CLOEXEC); }
static int by_fcntl(void) { return fcntl(fd, F_DUPFD, 0); }
static int by_fcntl_cloexec(void) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

static int by_setfd(void) { return fcntl(fd, F_SETFD, 0) ? -1 : fd; }
static int by_ioctl(void) { return ioctl(fd, FIONCLEX) ? -1 : fd; }

static int from_dup2(void)
{
	int other = open("/dev/null", O_RDONLY), is;

	is = dup2(other, fd);
	assert(close(other) == 0);
	return is;
}

static int by_fork(void)
{
	pid_t child = fork();
	int status;

	assert(child >= 0);
	if (!child)
		_exit(fcntl(fd, F_SETFL, 0) || *state != VB_FLAG_SHARED);
	assert(waitpid(child, &status, 0) == child && status == 0);
	return fd;
}

static void *set_and_clear(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		assert(set((i & 1) == (arg != NULL) ? O_NONBLOCK : 0) == 0);
	return NULL;
}

/* Two threads change the flag at once: the order is the kernel's. */
static void by_two_threads(void)
{
	for (int i = 0; i < 10; i++) {
		pthread_t t;

		watch();
		assert(pthread_create(&t, NULL, set_and_clear, (void *)state) == 0);
		set_and_clear(NULL);
		assert(pthread_join(t, NULL) == 0);
		assert(*state != VB_FLAG_CHANGING);
		assert(*state != VB_FLAG_SET || fcntl(fd, F_GETFL) & O_NONBLOCK);
		forget();
	}
}

/* More than are watched, and their places again. */
static void many(void)
{
	const atomic_int *states[100];
	int n = 0;

	while (n < 100 && (states[n] = vb_nonblock_watch(300 + n)))
		n++;
	assert(n > 0 && n < 100);
	for (int i = 0; i < n; i++)
		vb_nonblock_forget(states[i]);
	by_calls();
}

int main(int argc, char **argv)
{
	assert(argc == 2);
	if (!getenv("LD_PRELOAD")) {
		setenv("LD_PRELOAD", argv[1], 1);
		execv("/proc/self/exe", argv);
		return 127;
	}
	assert(vb_nonblock_watch && vb_nonblock_forget);
	by_calls();
	shared_by(by_dup);
	shared_by(by_dup2);
	shared_by(by_dup3);
	shared_by(by_fcntl);
	shared_by(by_fcntl_cloexec);
	shared_by(by_setfd);
	shared_by(by_ioctl);
	shared_by(from_dup2);
	shared_by(by_fork);
	by_two_threads();
	many();
	printf("preload: O_NONBLOCK ok\n");
	return 0;
}
