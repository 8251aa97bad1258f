/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3).
 */
#define _GNU_SOURCE
#include "channel.h"
#include "cookie.h"
#include "cq.h"
#include "nonblock.h"
#include "restart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int add(int set, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev) ? errno : 0;
}

/* Makes an epoll set with an eventfd: 0 or an errno. */
static int open_set(int *set, int *event_fd)
{
	int err;

	*event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (*event_fd < 0)
		return errno;
	*set = epoll_create1(EPOLL_CLOEXEC);
	err = *set < 0 ? errno : add(*set, *event_fd);
	if (err) {
		close(*event_fd);
		if (*set >= 0)
			close(*set);
	}
	return err;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_comp_channel *, ibv_create_comp_channel,
			     (struct ibv_context *ctx), (ctx))
{
	struct vb_channel *ch;
	int err;

	if (!ctx) {
		errno = EINVAL;
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	err = open_set(&ch->channel.fd, &ch->event_fd);
	if (err) {
		free(ch);
		errno = err;
		return NULL;
	}
	ch->channel.context = ctx;
	ch->flag = vb_nonblock_watch ? vb_nonblock_watch(ch->channel.fd) : NULL;
	ch->owner = getpid();
	atomic_init(&ch->wait_fd, -1);
	return &ch->channel;
}

/* -- the channel whose descriptor shows arrivals --------------------------------- */

/*
 * Few channels of a process show arrivals, one per thread: their descriptors become readable
 * together, and the kernel bounds the epoll sets above a socket (10 of five levels).
 */
#define READERS 8

static struct {
	pthread_mutex_t mu;
	struct {
		pid_t thread;
		struct vb_channel *channel;
	} of[READERS]; /* guarded by mu */
} readers = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* Adds the channel to the readers. Returns whether there is room. The caller holds mu. */
static int enter(struct vb_channel *ch)
{
	pid_t thread = gettid();
	int place = -1;

	for (int i = 0; i < READERS; i++) {
		if (!readers.of[i].channel)
			place = i;
		else if (readers.of[i].thread == thread)
			return 0;
	}
	if (place < 0)
		return 0;
	readers.of[place].thread = thread;
	readers.of[place].channel = ch;
	return 1;
}

/* Removes the channel from the readers. The caller holds mu. */
static void leave(struct vb_channel *ch)
{
	for (int i = 0; i < READERS; i++)
		if (readers.of[i].channel == ch)
			readers.of[i].channel = NULL;
}

/* Makes the descriptor show arrivals, or stop that. */
static void show(struct vb_channel *ch, int want)
{
	int fds[] = {ch->bell, ch->sockets};

	if (want == atomic_load_explicit(&ch->shows, memory_order_relaxed) || ch->bell < 0)
		return;
	pthread_mutex_lock(&readers.mu);
	if (want && !atomic_load(&ch->shows) && enter(ch)) {
		int err = add(ch->channel.fd, fds[0]);

		if (!err) {
			err = add(ch->channel.fd, fds[1]);
			if (err)
				epoll_ctl(ch->channel.fd, EPOLL_CTL_DEL, fds[0], NULL);
		}
		if (err)
			leave(ch);
		else
			atomic_store(&ch->shows, 1);
	} else if (!want && atomic_load(&ch->shows)) {
		for (int i = 0; i < 2; i++)
			epoll_ctl(ch->channel.fd, EPOLL_CTL_DEL, fds[i], NULL);
		atomic_store(&ch->shows, 0);
		leave(ch);
	}
	pthread_mutex_unlock(&readers.mu);
}

void vb_channels_before_fork(void)
{
	pthread_mutex_lock(&readers.mu);
}

void vb_channels_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&readers.mu);
}

/* A child shares the epoll sets with its parent. */
void vb_channels_after_fork_in_child(void)
{
	for (int i = 0; i < READERS; i++)
		readers.of[i].channel = NULL;
	pthread_mutex_unlock(&readers.mu);
}

/* ---------------------------------------------------------------------------------- */

VB_EXPORT VB_RETURNS_ERRNO(ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel))
{
	struct vb_channel *ch = vb_channel_of(channel);
	const struct vb_engine *engine;
	int refs;

	if (!channel)
		return EINVAL;
	pthread_mutex_lock(&channel->context->mutex);
	refs = channel->refcnt;
	pthread_mutex_unlock(&channel->context->mutex);
	if (refs)
		return EBUSY;
	engine = atomic_load(&ch->engine);
	if (engine && vb_engine_alive(engine)) {
		show(ch, 0);
		engine->channel_close(ch->handle);
	}
	if (ch->flag)
		vb_nonblock_forget(ch->flag);
	close(channel->fd);
	close(ch->event_fd);
	if (atomic_load(&ch->wait_fd) >= 0)
		close(atomic_load(&ch->wait_fd));
	free(ch);
	return 0;
}

/*
 * Gives a child of a fork an epoll set of its own under the descriptor that the application has:
 * the old one belongs to the parent.
 */
static int own_set(struct vb_channel *ch)
{
	int flags = fcntl(ch->channel.fd, F_GETFL), set, event_fd, err;

	if (flags < 0)
		return errno;
	err = open_set(&set, &event_fd);
	if (err)
		return err;
	err = dup3(set, ch->channel.fd, O_CLOEXEC) < 0 || fcntl(ch->channel.fd, F_SETFL, flags)
		      ? errno
		      : 0;
	close(set);
	if (err) {
		close(event_fd);
		return err;
	}
	close(ch->event_fd);
	ch->event_fd = event_fd;
	ch->owner = getpid();
	return 0;
}

/* Makes the engine's part of the channel. The caller holds the mutex of the context. */
static int open_channel(struct vb_channel *ch, const struct vb_engine *engine, vb_handle ctx)
{
	int err = ch->owner == getpid() ? 0 : own_set(ch);

	if (!err)
		err = engine->channel_open(ctx, ch->event_fd, &ch->handle, &ch->bell, &ch->sockets);
	if (!err)
		atomic_store(&ch->engine, engine);
	return err;
}

int vb_channel_use(struct vb_channel *ch, const struct vb_engine *engine, vb_handle ctx)
{
	pthread_mutex_t *mu = &ch->channel.context->mutex;
	const struct vb_engine *has;
	int err = 0;

	pthread_mutex_lock(mu);
	has = atomic_load(&ch->engine);
	if (!has)
		err = open_channel(ch, engine, ctx);
	else if (has != engine) /* a channel used before a fork is the parent's too */
		err = EIO;
	if (!err)
		ch->channel.refcnt++;
	pthread_mutex_unlock(mu);
	return err;
}

void vb_channel_unuse(struct vb_channel *ch)
{
	pthread_mutex_lock(&ch->channel.context->mutex);
	ch->channel.refcnt--;
	pthread_mutex_unlock(&ch->channel.context->mutex);
}

/* -- sleeping ---------------------------------------------------------------------- */

static int is_nonblocking(struct vb_channel *ch)
{
	int flags;

	if (ch->flag && atomic_load(ch->flag) == VB_FLAG_SET)
		return 1;
	flags = fcntl(ch->channel.fd, F_GETFL);
	return flags >= 0 && flags & O_NONBLOCK;
}

/* -- threads that poll beside those that sleep ---------------------------------------- */

/* A poller that waits for a core among many others still counts as one. */
#define POLLER_NS UINT64_C(100000000)

static __thread char self; /* its address names the thread */

const void *vb_thread(void)
{
	return &self;
}

static struct {
	_Atomic(const void *) thread;
	_Atomic uint64_t at; /* when it polled, in ns */
} poller;

static uint64_t about_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

void vb_channel_polled(void)
{
	atomic_store_explicit(&poller.thread, &self, memory_order_relaxed);
	atomic_store_explicit(&poller.at, about_now(), memory_order_relaxed);
}

/*
 * Reports whether another thread polls. That thread reads packets sooner than one that wakes up and
 * would also take a core from it. So a channel shows only events.
 */
static int another_polls(void)
{
	uint64_t at = atomic_load_explicit(&poller.at, memory_order_relaxed);

	return at && about_now() - at < POLLER_NS &&
	       atomic_load_explicit(&poller.thread, memory_order_relaxed) != &self;
}

int vb_channel_another_polls(void)
{
	if (atomic_load_explicit(&poller.thread, memory_order_relaxed) == &self)
		atomic_store_explicit(&poller.at, 0, memory_order_relaxed);
	return another_polls();
}

/* Stops showing arrivals, and has the engine forget that the application may wait for them. */
static void hide(struct vb_channel *ch)
{
	atomic_store_explicit(&ch->asked, 0, memory_order_relaxed);
	if (!atomic_load_explicit(&ch->shows, memory_order_relaxed))
		return;
	show(ch, 0);
	atomic_load(&ch->engine)->channel_unwatch(ch->handle);
}

/* ---------------------------------------------------------------------------------- */

/* The number of repetitions after which the application is expected to do the same again. */
#define OFTEN 3

enum vb_arm vb_channel_notify(struct vb_channel *ch, struct vb_cq *cq)
{
	/* A channel that blocked last time is taken to do so again: ibv_get_cq_event asks. */
	if (another_polls())
		hide(ch);
	else if (!atomic_load_explicit(&ch->waits, memory_order_relaxed) &&
		 !atomic_exchange_explicit(&ch->asked, 0, memory_order_relaxed))
		show(ch, is_nonblocking(ch));
	atomic_store_explicit(&ch->ready, 0, memory_order_relaxed);
	if (!atomic_load_explicit(&ch->shows, memory_order_relaxed))
		return VB_ARM_ONLY;
	if (atomic_load_explicit(&ch->hasty, memory_order_relaxed) >= OFTEN)
		return VB_ARM_SLEEPS;
	return atomic_load_explicit(&cq->drained, memory_order_relaxed) >= OFTEN ? VB_ARM_POLLS
										 : VB_ARM_ONLY;
}

int vb_channel_sleep(struct vb_channel *ch, struct vb_cq *cq, int most)
{
	atomic_store_explicit(&ch->ready, 1, memory_order_relaxed);
	if (another_polls())
		hide(ch);
	else if (atomic_load_explicit(&ch->shows, memory_order_relaxed))
		return cq->engine->cq_sleep(cq->handle, most);
	else if (!atomic_load_explicit(&ch->waits, memory_order_relaxed))
		cq->engine->wake(cq->ctx); /* ibv_get_cq_event reads by itself; poll(2) does not */
	return 0;
}

/* Returns the epoll set that a blocking thread waits for, -1 without a descriptor for it. */
static int wait_set(struct vb_channel *ch)
{
	int have = atomic_load(&ch->wait_fd), none = -1, set;

	if (have >= 0 || ch->bell < 0)
		return have;
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0)
		return -1;
	if (add(set, ch->event_fd) || add(set, ch->bell) || add(set, ch->sockets)) {
		close(set);
		return -1;
	}
	if (atomic_compare_exchange_strong(&ch->wait_fd, &none, set))
		return set;
	close(set); /* another thread was faster */
	return none;
}

static void unwait(void *arg)
{
	struct vb_channel *ch = arg;

	atomic_load(&ch->engine)->channel_unwait(ch->handle);
}

/* Waits until a set is readable: 0 or EINTR, as read(2) does. */
static int wait_readable(int set)
{
	struct epoll_event ev;

	while (epoll_wait(set, &ev, 1, -1) < 0)
		if (errno != EINTR || !vb_restarts())
			return errno;
	return 0;
}

/* Waits for arrivals. The thread may be cancelled meanwhile, as in read(2). */
static int wait_arrival(struct vb_channel *ch, int set)
{
	volatile int err;

	pthread_cleanup_push(unwait, ch);
	err = wait_readable(set);
	pthread_cleanup_pop(0);
	return err;
}

/* Waits where only the descriptor of the application shows events. */
static int wait_event(struct vb_channel *ch)
{
	struct pollfd p = {.fd = ch->channel.fd, .events = POLLIN};

	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR || !vb_restarts())
			return errno;
	return 0;
}

/*
 * The number of events in a row that the engine had read before the application asked. The
 * application then waits in poll(2), not in ibv_get_cq_event.
 */
static void count_kept(struct vb_channel *ch, int kept)
{
	unsigned n = kept ? atomic_load_explicit(&ch->kept, memory_order_relaxed) + 1 : 0;

	atomic_store_explicit(&ch->kept, n, memory_order_relaxed);
	if (n == OFTEN)
		atomic_store_explicit(&ch->waits, 0, memory_order_relaxed);
}

/*
 * Calls channel_take. Packets without an event may be the first of a long message, whose sender
 * still sends, perhaps from this core. So the thread gives that to the sender, and reads again: a
 * sleep and a wake-up cost more. A yield that took a time slice went to a thread that computes. The
 * next ones are left out.
 */
static int take_or_yield(struct vb_channel *ch, const struct vb_engine *engine, unsigned how,
			 vb_cookie *cookie, int *kept)
{
	int err = engine->channel_take(ch->handle, (enum vb_take)how, cookie, kept);

	if (err != EINPROGRESS)
		return err;
	if (vb_giveway_next(&ch->giveway, 0, 1, 0) == VB_YIELD)
		vb_yield(&ch->giveway, 0);
	else
		vb_giveway_slept(&ch->giveway, vb_now(), 0, 0);
	how = (how & ~VB_TAKE_WOKEN) | VB_TAKE_AGAIN;
	return engine->channel_take(ch->handle, (enum vb_take)how, cookie, kept);
}

/* Takes the cookie of an event: 0 or an errno. */
static int take(struct vb_channel *ch, const struct vb_engine *engine, vb_cookie *cookie)
{
	unsigned woken = 0;

	for (;;) {
		int shows = atomic_load_explicit(&ch->shows, memory_order_relaxed);
		int nonblocking, kept, set, err;
		unsigned how = shows ? VB_TAKE_WATCH : VB_TAKE_SERVE;

		if (another_polls())
			how = VB_TAKE_LEAVE;
		else if (woken || atomic_load_explicit(&ch->waits, memory_order_relaxed))
			how = VB_TAKE_WAIT;
		kept = 0;
		err = take_or_yield(ch, engine, how | woken, cookie, &kept);
		if (!err)
			count_kept(ch, kept && !woken);
		if (err != EAGAIN)
			return err;
		woken = 0;
		nonblocking = is_nonblocking(ch);
		show(ch, nonblocking && how != VB_TAKE_LEAVE);
		atomic_store_explicit(&ch->asked, nonblocking && how != VB_TAKE_LEAVE,
				      memory_order_relaxed);
		atomic_store_explicit(&ch->waits, !nonblocking, memory_order_relaxed);
		if (how == VB_TAKE_LEAVE && !nonblocking) {
			err = wait_event(ch);
			if (err)
				return err;
			continue;
		}
		if (how == VB_TAKE_WAIT) {
			set = nonblocking ? -1 : wait_set(ch);
			if (set >= 0) {
				err = wait_arrival(ch, set);
				if (!err) {
					woken = VB_TAKE_WOKEN;
					continue;
				}
			}
			engine->channel_unwait(ch->handle);
			if (err != EAGAIN)
				return err;
			if (nonblocking)
				continue;
			engine->wake(vb_context_of(ch->channel.context)->handle);
			err = wait_event(ch);
			if (err)
				return err;
			continue;
		}
		if (nonblocking &&
		    (how == VB_TAKE_LEAVE ||
		     shows == atomic_load_explicit(&ch->shows, memory_order_relaxed))) {
			atomic_store_explicit(&ch->ready, 1, memory_order_relaxed);
			return EAGAIN;
		}
	}
}

/*
 * An application may sleep without an empty poll before it, and so without notice. After so many
 * times in a row ibv_req_notify_cq counts as the notice. One that gave notice so often is taken to
 * poll again before it sleeps.
 */
static void count_notices(struct vb_channel *ch, struct vb_cq *q)
{
	unsigned hasty = 0, drained = 0;

	if (!atomic_load_explicit(&ch->ready, memory_order_relaxed) &&
	    atomic_load_explicit(&q->armed, memory_order_relaxed))
		hasty = atomic_load_explicit(&ch->hasty, memory_order_relaxed) + 1;
	if (hasty <= OFTEN)
		atomic_store_explicit(&ch->hasty, hasty, memory_order_relaxed);
	if (!atomic_load_explicit(&q->armed, memory_order_relaxed))
		drained = atomic_load_explicit(&q->drained, memory_order_relaxed) + 1;
	if (drained <= OFTEN)
		atomic_store_explicit(&q->drained, drained, memory_order_relaxed);
}

VB_EXPORT VB_RETURNS_COUNT(int, ibv_get_cq_event,
			   (struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context),
			   (channel, cq, cq_context))
{
	const struct vb_engine *engine;
	struct vb_channel *ch = vb_channel_of(channel);
	struct vb_cq *q = NULL;
	vb_cookie event;

	if (!channel || !cq || !cq_context) {
		errno = EINVAL;
		return -1;
	}
	while (!q) {
		int err;

		engine = atomic_load(&ch->engine);
		if (!engine) /* no queue, so no event, unless another thread makes one */
			err = is_nonblocking(ch) ? EAGAIN : wait_event(ch);
		else
			err = vb_engine_alive(engine) ? take(ch, engine, &event) : EIO;
		if (err) {
			errno = err;
			return -1;
		}
		if (engine)
			q = vb_cookie_report_comp(event);
	}
	count_notices(ch, q);
	*cq = &q->ibv.cq;
	*cq_context = q->ibv.cq.cq_context;
	return 0;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int nevents),
			     (cq, nevents))
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
