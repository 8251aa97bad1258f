/* SPDX-License-Identifier: BSD-2-Clause */
#include "service.h"

#include "forklock.h"
#include "index.h"
#include "keepalive.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int epoll = -1;	    /* guarded by mu; -1: the thread does not run */
static int kick;	    /* an eventfd in epoll; as above */
static unsigned generation; /* the process generation of epoll and kick */

/* The data of an epoll event. It holds no pointer, because the socket may be gone. */
#define KICK UINT64_MAX

static uint64_t token(struct rs_socket *s, int which)
{
	return (uint64_t)which << 32 | (uint32_t)s->number;
}

static void serve(uint64_t data)
{
	struct rs_socket *s = rs_index_get((int)(uint32_t)data);

	if (!s)
		return;
	s->ops->service(s, (int)(data >> 32));
	rs_put(s);
}

struct thread {
	int epoll, kick;
};

static void *run(void *argument)
{
	struct thread thread = *(struct thread *)argument;
	struct epoll_event events[16];

	free(argument);
	for (;;) {
		int n = epoll_wait(thread.epoll, events, 16, rs_keepalive_run());

		for (int i = 0; i < n; i++) {
			uint64_t rings;

			if (events[i].data.u64 != KICK)
				serve(events[i].data.u64);
			else if (read(thread.kick, &rings, sizeof(rings)) < 0)
				continue; /* nothing to read: the same */
		}
	}
	return NULL;
}

/* Returns 0 or a positive errno. The caller holds mu. */
static int start(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = KICK };
	struct thread *thread = malloc(sizeof(*thread));
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t id;
	int error;

	epoll = epoll_create1(EPOLL_CLOEXEC);
	kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!thread || epoll < 0 || kick < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, kick, &event)) {
		error = thread ? errno : ENOMEM;
		goto undo;
	}
	*thread = (struct thread){ epoll, kick };
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* signal handlers run in threads of the application */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&id, &attributes, run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!error) {
		generation = rs_generation;
		return 0;
	}
undo:
	free(thread);
	if (epoll >= 0)
		close(epoll);
	if (kick >= 0)
		close(kick);
	epoll = -1;
	return error;
}

/* The caller holds mu. */
static int ensure(void)
{
	if (epoll >= 0 && generation != rs_generation) { /* a fork does not copy the thread */
		close(epoll);
		close(kick);
		epoll = -1;
	}
	return epoll >= 0 ? 0 : start();
}

int rs_service_add(struct rs_socket *s, int fd, int which)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = token(s, which) };

	pthread_mutex_lock(&mu);
	int error = ensure();

	if (!error && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		error = errno;
	pthread_mutex_unlock(&mu);
	return -error;
}

void rs_service_remove(int fd)
{
	pthread_mutex_lock(&mu);
	if (epoll >= 0)
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL); /* it may not be in the set */
	pthread_mutex_unlock(&mu);
}

int rs_service_kick(void)
{
	uint64_t one = 1;

	pthread_mutex_lock(&mu);
	int error = ensure();

	if (!error && write(kick, &one, sizeof(one)) < 0 && errno != EAGAIN)
		error = errno;
	pthread_mutex_unlock(&mu);
	return -error;
}

VB_HELD_OVER_FORK(&mu);
