/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: rdma_create_event_channel(3), the events in their pipes, and the threads that
 * wait for them.
 */
#include "cm.h"
#include "order.h"
#include "../libibverbs/restart.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct cm_moved {
	struct cm_moved *next;
	struct vb_cm_event *event;
};

static unsigned forks; /* between the process that loaded the library and this one */

/* Reads an event that a thread of the engine has made; NULL if the pipe has a stand-in. */
static ssize_t read_event(int fd, struct vb_cm_event **event)
{
	ssize_t n = read(fd, event, sizeof(*event));

	if (n == sizeof(*event) && *event)
		vb_order_after(*event);
	return n;
}

VB_EXPORT VB_RETURNS_POINTER(struct rdma_event_channel *, rdma_create_event_channel, (void), ())
{
	static _Atomic uint64_t numbers;
	struct cm_channel *channel = calloc(1, sizeof(*channel));
	int fds[2];

	if (!channel)
		return NULL;
	if (pipe2(fds, O_CLOEXEC)) {
		free(channel);
		return NULL;
	}
	/*
	 * The pipe is non-blocking for the engine: it must not wait for an application that reads no
	 * events.
	 */
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	channel->moved_end = &channel->moved;
	channel->owner = forks;
	channel->number = atomic_fetch_add(&numbers, 1) + 1;
	pthread_mutex_init(&channel->mu, NULL);
	return &channel->channel;
}

/*
 * Gives a child of a fork a pipe of its own under the descriptor that the application has: the
 * parent writes pointers of its own memory into the old one. The caller holds mu.
 */
static int own_pipe(struct cm_channel *channel)
{
	int flags = fcntl(channel->channel.fd, F_GETFL);
	int fds[2];

	if (flags < 0 || pipe2(fds, O_CLOEXEC))
		return errno;
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	if (dup3(fds[0], channel->channel.fd, O_CLOEXEC) < 0) {
		int err = errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	fcntl(channel->channel.fd, F_SETFL, flags);
	close(fds[0]);
	close(channel->write_fd);
	channel->write_fd = fds[1];
	channel->owner = forks;
	channel->waiting = 0; /* in the parent */
	return 0;
}

/*
 * Returns whether a parent used the channel before a fork. The events in its pipe point into the
 * memory of the parent, and a thread that the fork did not copy may hold mu.
 */
static int inherited(const struct cm_channel *channel)
{
	return channel->owner != forks && channel->engine;
}

/*
 * Makes sure that the pipe of a channel belongs to this process: 0 or an errno. The caller holds
 * mu.
 */
static int own(struct cm_channel *channel)
{
	return channel->owner == forks ? 0 : own_pipe(channel);
}

int cm_channel_open(struct cm_channel *channel)
{
	const struct vb_engine *engine = vb_engine_get();
	int err = 0;

	if (!engine)
		return errno;
	if (inherited(channel))
		return EIO;
	pthread_mutex_lock(&channel->mu);
	if (!channel->engine) {
		err = own(channel);
		if (!err)
			err = engine->cm_channel_create(channel->write_fd, &channel->handle);
		if (!err)
			channel->engine = engine;
	}
	pthread_mutex_unlock(&channel->mu);
	return err;
}

int cm_channel_post(struct cm_channel *channel, struct vb_cm_event *event)
{
	int err = 0;

	if (inherited(channel))
		return EIO;
	vb_order_before(event);
	pthread_mutex_lock(&channel->mu);
	if (write(channel->write_fd, &event, sizeof(event)) != sizeof(event))
		err = errno; /* EAGAIN: thousands of events wait */
	pthread_mutex_unlock(&channel->mu);
	return err;
}

/* -- taking events; mu is held -------------------------------------------------- */

/* Returns the number of records in the pipe. */
static int records(struct cm_channel *channel)
{
	int bytes = 0;

	if (ioctl(channel->channel.fd, FIONREAD, &bytes))
		return 0;
	return bytes / (int)sizeof(struct vb_cm_event *);
}

/* Appends an event to the moved ones of the channel: 0 or an errno. */
static int append(struct cm_channel *channel, struct vb_cm_event *event)
{
	struct cm_moved *moved = malloc(sizeof(*moved));

	if (!moved)
		return ENOMEM;
	moved->next = NULL;
	moved->event = event;
	*channel->moved_end = moved;
	channel->moved_end = &moved->next;
	return 0;
}

static struct vb_cm_event *pop(struct cm_channel *channel)
{
	struct cm_moved *moved = channel->moved;
	struct vb_cm_event *event = moved->event;

	channel->moved = moved->next;
	if (!channel->moved)
		channel->moved_end = &channel->moved;
	free(moved);
	return event;
}

/* Keeps the descriptor readable while events wait outside the pipe. */
static void show(struct cm_channel *channel)
{
	struct vb_cm_event *stand_in = NULL;
	ssize_t n;

	if (!channel->moved || records(channel))
		return;
	n = write(channel->write_fd, &stand_in, sizeof(stand_in));
	(void)n; /* cannot fail: the pipe was empty; if it has been filled since, it is readable */
}

/* Returns the oldest event. event has just come out of the pipe, and may be NULL. */
static struct vb_cm_event *oldest(struct cm_channel *channel, struct vb_cm_event *event)
{
	if (!channel->moved)
		return event;
	/* The event of the pipe is younger than the moved ones. */
	if (event && append(channel, event))
		return event; /* out of order, but not lost */
	event = pop(channel);
	show(channel);
	return event;
}

/* Takes the oldest of the moved events. */
static struct vb_cm_event *take_moved(struct cm_channel *channel)
{
	struct vb_cm_event *event = NULL;

	/* Removes a stand-in from the pipe, too, unless a waiting thread is about to read it. */
	if (!channel->waiting && records(channel) &&
	    read_event(channel->channel.fd, &event) != sizeof(event))
		event = NULL;
	return oldest(channel, event);
}

/*
 * Returns how many records may be read without waiting. Each waiting thread may still read one, so
 * as many stand-ins are written behind the records that are there.
 */
static int readable(struct cm_channel *channel)
{
	struct vb_cm_event *stand_in = NULL;

	for (int i = 0; i < channel->waiting; i++) {
		if (write(channel->write_fd, &stand_in, sizeof(stand_in)) != sizeof(stand_in))
			break; /* full */
	}
	return records(channel) - channel->waiting;
}

void cm_channel_sift(struct cm_channel *channel, struct cm_channel *to,
		     enum cm_verdict (*judge)(const struct vb_cm_event *, const void *), const void *arg)
{
	struct cm_moved **at;
	struct vb_cm_event *event;

	for (int n = readable(channel); n > 0; n--) {
		if (read_event(channel->channel.fd, &event) != sizeof(event))
			break;
		if (event && append(channel, event))
			cm_event_discard(channel->engine, event);
	}
	for (at = &channel->moved; *at;) {
		struct cm_moved *moved = *at;
		enum cm_verdict verdict = judge(moved->event, arg);

		if (verdict == CM_STAYS) {
			at = &moved->next;
			continue;
		}
		*at = moved->next;
		if (verdict == CM_MOVES) {
			moved->next = NULL;
			*to->moved_end = moved;
			to->moved_end = &moved->next;
			continue;
		}
		cm_event_discard(channel->engine, moved->event);
		free(moved);
	}
	channel->moved_end = at;
	show(channel);
	if (to)
		show(to);
}

/* -- the reader ------------------------------------------------------------------------ */

/*
 * The reader is a thread that waits for the pipe of its channel and for the messages of connection
 * managers. It has the engine handle them, so that a message wakes no other thread. There is one
 * reader in a process; other threads wait for their pipes only. The kernel knows whether a thread
 * waits for set. A reader that a signal handler takes out of its wait by siglongjmp leaves only its
 * name behind. Other threads then wait for their pipes.
 */
static struct {
	_Atomic(const void *) thread;
	atomic_int set; /* 0: none yet; -1: there can be none */
	pthread_mutex_t mu;
	/* guarded by mu: the channel whose pipe is in set, 0 without, and that pipe's descriptor */
	uint64_t number;
	int fd;
} reader = {.mu = PTHREAD_MUTEX_INITIALIZER};

static __thread char self; /* its address names the thread */

#define PIPE UINT64_MAX /* data of a pipe's events: no descriptor */

/* A child shares the set with its parent. libibverbs closes it, as the engine's descriptors. */
void cm_channels_after_fork_in_child(void)
{
	forks++;
	atomic_store(&reader.set, 0);
	atomic_store(&reader.thread, NULL);
	pthread_mutex_init(&reader.mu, NULL);
	reader.number = 0;
}

/* Returns the set, -1 without. */
static int reader_set(const struct vb_engine *engine)
{
	int set = atomic_load(&reader.set);

	if (set)
		return set;
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set >= 0 && engine->cm_watch(set)) {
		close(set);
		set = -1;
	}
	atomic_store(&reader.set, set);
	return set;
}

/* Makes set have the pipe of a channel and no other: 0 or -1. */
static int show_pipe(int set, uint64_t number, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = PIPE};
	int err = 0;

	pthread_mutex_lock(&reader.mu);
	if (reader.number != number) {
		if (reader.number)
			epoll_ctl(set, EPOLL_CTL_DEL, reader.fd, NULL);
		err = epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
		reader.number = err ? 0 : number;
		reader.fd = fd;
	}
	pthread_mutex_unlock(&reader.mu);
	return err;
}

/*
 * Takes the pipe of a channel out of set before it is closed. A child of a fork may keep it open,
 * and the keeper's connection may get the number of its descriptor.
 */
static void hide_pipe(const struct cm_channel *channel)
{
	pthread_mutex_lock(&reader.mu);
	if (reader.number == channel->number) {
		epoll_ctl(atomic_load(&reader.set), EPOLL_CTL_DEL, reader.fd, NULL);
		reader.number = 0;
	}
	pthread_mutex_unlock(&reader.mu);
}

/* Makes the calling thread the reader, for a channel. Returns the set, -1 if it is not. */
static int begin_read(const struct vb_engine *engine, struct cm_channel *channel)
{
	const void *thread = NULL;
	int set, flags = fcntl(channel->channel.fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK) {
		atomic_store(&channel->polled, 1);
		return -1;
	}
	if (!atomic_compare_exchange_strong(&reader.thread, &thread, &self) && thread != &self)
		return -1;
	set = flags < 0 ? -1 : reader_set(engine);
	if (set >= 0 && show_pipe(set, channel->number, channel->channel.fd))
		set = -1;
	if (set < 0)
		atomic_store(&reader.thread, NULL);
	return set;
}

static void end_read(void *engine)
{
	((const struct vb_engine *)engine)->cm_serve(); /* it may have been woken, and cancelled */
	atomic_store(&reader.thread, NULL);
}

/*
 * Waits until the pipe of the reader's channel is readable: 0 or EINTR, as read(2) does. Where it
 * cannot wait it returns 0 as well.
 */
static int wait_readable(const struct vb_engine *engine, int set)
{
	for (;;) {
		struct epoll_event events[2];
		int n = epoll_wait(set, events, 2, -1), readable = n < 0;

		if (n < 0 && errno == EINTR) {
			if (!vb_restarts())
				return EINTR;
			continue;
		}
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == PIPE)
				readable = 1;
			else
				engine->cm_serve();
		}
		if (readable)
			return 0;
	}
}

/* Is wait_readable, in which the thread may be cancelled. */
static int read_until_event(const struct vb_engine *engine, int set)
{
	volatile int err;

	pthread_cleanup_push(end_read, (void *)engine);
	err = wait_readable(engine, set);
	pthread_cleanup_pop(0);
	atomic_store(&reader.thread, NULL);
	return err;
}

/* -- waiting ---------------------------------------------------------------------- */

static void free_channel(struct cm_channel *channel)
{
	hide_pipe(channel);
	close(channel->channel.fd);
	pthread_mutex_destroy(&channel->mu);
	free(channel);
}

/* Ends the wait of a thread that is cancelled. */
static void leave_wait(void *arg)
{
	struct cm_channel *channel = arg;
	int last;

	pthread_mutex_lock(&channel->mu);
	channel->waiting--;
	last = channel->destroyed && !channel->waiting;
	pthread_mutex_unlock(&channel->mu);
	if (last)
		free_channel(channel);
}

/*
 * Reads the pipe, and waits for a record: 0 or an errno. The last wait is read(2), as another
 * thread may take the record. The kernel restarts it after a signal with SA_RESTART, as it does
 * that of rdma-core; threads of the engine cause such signals. Programs that poll look at an
 * O_NONBLOCK channel again and again: then the read is the only system call.
 */
static int wait_record(struct cm_channel *channel, const struct vb_engine *engine,
		       struct vb_cm_event **event)
{
	int set = -1, err;
	ssize_t n;

	if (engine && !atomic_load(&channel->polled) && !records(channel))
		set = begin_read(engine, channel);
	if (set >= 0) {
		err = read_until_event(engine, set);
		if (err)
			return err;
	}
	n = read_event(channel->channel.fd, event);
	if (n > 0)
		atomic_store(&channel->polled, 0); /* it may have waited */
	return n < 0 ? errno : n == 0 ? EBADF : 0;
}

/*
 * Calls wait_record, in which the thread may be cancelled. The caller holds mu, which is released
 * meanwhile.
 */
static int wait_pipe(struct cm_channel *channel, struct vb_cm_event **event)
{
	const struct vb_engine *const volatile engine = channel->engine;
	volatile int err;

	channel->waiting++;
	pthread_mutex_unlock(&channel->mu);
	pthread_cleanup_push(leave_wait, channel);
	err = wait_record(channel, engine, event);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&channel->mu);
	channel->waiting--;
	return channel->destroyed ? EBADF : err;
}

int cm_channel_take(struct cm_channel *channel, struct vb_cm_event **event)
{
	int err = 0, destroyed, last;

	*event = NULL;
	if (inherited(channel))
		return EIO;
	pthread_mutex_lock(&channel->mu);
	while (!err && !*event) {
		err = own(channel);
		if (!err && channel->moved) {
			*event = take_moved(channel);
		} else if (!err) {
			err = wait_pipe(channel, event);
			if (!err)
				*event = oldest(channel, *event);
		}
	}
	destroyed = channel->destroyed;
	last = destroyed && !channel->waiting;
	pthread_mutex_unlock(&channel->mu);
	if (last)
		free_channel(channel);
	if (destroyed) {
		/*
		 * The application destroyed the channel during the call. With rdma-core the call then waits
		 * for ever; rping(1) and cmtime(1) end like that, and would report an error as a failure.
		 */
		pause();
		err = EINTR;
	}
	return err;
}

static enum cm_verdict all(const struct vb_cm_event *event, const void *arg)
{
	(void)event;
	(void)arg;
	return CM_DROPPED;
}

VB_EXPORT VB_RETURNS_NOTHING(rdma_destroy_event_channel, (struct rdma_event_channel *rdma_channel),
			     (rdma_channel))
{
	struct cm_channel *channel = cm_channel_of(rdma_channel);
	int waiting;

	if (!channel)
		return;
	if (inherited(channel)) {
		pthread_mutex_init(&channel->mu, NULL);
		channel->engine = NULL;
		channel->waiting = 0;
	}
	/* The engine goes first, so that no event follows those that are dropped. */
	if (channel->engine)
		channel->engine->cm_channel_destroy(channel->handle);
	pthread_mutex_lock(&channel->mu);
	if (channel->engine)
		cm_channel_sift(channel, NULL, all, NULL);
	while (channel->moved)
		free(pop(channel)); /* of before a fork */
	/* Wakes waiting threads: cmtime leaves one there. They need the other end for that. */
	close(channel->write_fd);
	channel->destroyed = 1;
	waiting = channel->waiting;
	pthread_mutex_unlock(&channel->mu);
	if (!waiting)
		free_channel(channel);
}
