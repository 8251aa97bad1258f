/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lets the Go runtime's monitor thread wake up late. While calls into Go come and go it sleeps for
 * 20 µs at a time, in each process. The calls of a C thread look to it like one goroutine that
 * runs for too long. So each time it takes that thread's processor, and wakes another thread for
 * it. With a slack of 2 ms a sixth of the switches of threads of 16 polling processes came from
 * that.
 *
 * A thread has its timer slack from the thread that makes it. The other threads keep the usual
 * slack: one that waits for a lock in Go sleeps for 3 µs at a time.
 *
 * A call that finds no free processor of the Go runtime waits for the monitor. See
 * enoughProcessors.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define MONITOR_SLACK_NS 50000000

/* Where the user has chosen the number of processors, calls do wait for the monitor. */
#define MONITOR_SLACK_CHOSEN_NS 2000000

/* The number of the monitor: thread 0 starts the runtime, and makes the monitor first. */
#define MONITOR 1

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static atomic_uint made;

/* The number of threads that the Go runtime has made. */
unsigned vb_threads_made(void)
{
	return atomic_load(&made);
}

static int monitor_slack(void)
{
	const char *chosen = secure_getenv("GOMAXPROCS");

	return chosen && *chosen ? MONITOR_SLACK_CHOSEN_NS : MONITOR_SLACK_NS;
}

/* Replaces pthread_create in the engine, by the linker's option wrap. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	static atomic_int usual; /* of the thread that loads the engine */
	unsigned number = atomic_fetch_add(&made, 1);
	int own = prctl(PR_GET_TIMERSLACK), err;

	if (number == 0)
		atomic_store(&usual, own);
	if (number == MONITOR && own < monitor_slack())
		prctl(PR_SET_TIMERSLACK, monitor_slack());
	else /* the monitor makes threads, too */
		prctl(PR_SET_TIMERSLACK, atomic_load(&usual));
	err = __real_pthread_create(thread, attr, start, arg);
	prctl(PR_SET_TIMERSLACK, own);
	return err;
}
