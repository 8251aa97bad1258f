/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGUSR1 asks a process with a ring of packets to write them to a file. It is taken from a program
 * that leaves it to its default action, and does not block it to wait for it (sigwait(3),
 * signalfd(2)). A program that sets a handler later has it.
 *
 * The handler may interrupt anything on any thread of the program, also the engine. So it only
 * counts, and wakes the thread of the engine that waits.
 */
#define _GNU_SOURCE
#include "usr1.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint32_t signals; /* a futex */

static void futex(int op, uint32_t value)
{
	syscall(SYS_futex, &signals, op | FUTEX_PRIVATE_FLAG, value, NULL);
}

static void add(void)
{
	atomic_fetch_add(&signals, 1);
	futex(FUTEX_WAKE, 1);
}

static void handle(int sig)
{
	int before = errno;

	(void)sig;
	add();
	errno = before;
}

static int give_back(void)
{
	struct sigaction now;

	if (sigaction(SIGUSR1, NULL, &now) || now.sa_handler != handle)
		return 0;
	now.sa_handler = SIG_DFL;
	now.sa_flags = 0;
	return sigaction(SIGUSR1, &now, NULL) == 0;
}

/* The child of a fork has no thread of this engine. */
static void in_child(void)
{
	give_back();
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

int vb_usr1_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sigaction now, ours = { .sa_handler = handle, .sa_flags = SA_RESTART | SA_ONSTACK };
	sigset_t blocked;

	sigemptyset(&ours.sa_mask);
	if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) || sigismember(&blocked, SIGUSR1) ||
	    sigaction(SIGUSR1, NULL, &now) || now.sa_handler != SIG_DFL)
		return 0;
	pthread_once(&once, register_fork);
	return sigaction(SIGUSR1, &ours, NULL) == 0;
}

uint32_t vb_usr1_count(void)
{
	return atomic_load(&signals);
}

uint32_t vb_usr1_await(uint32_t count)
{
	uint32_t now;

	while ((now = atomic_load(&signals)) == count)
		futex(FUTEX_WAIT, count);
	return now;
}

int vb_usr1_stop(void)
{
	int ours = give_back();

	add(); /* the thread that waits looks why */
	return ours;
}
