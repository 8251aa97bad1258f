/* SPDX-License-Identifier: BSD-2-Clause */
#include "watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* The descriptor of the bell plus 1: 0 is none. It belongs to bell_generation. */
static __thread int own_bell;
static __thread unsigned bell_generation;

static pthread_key_t bell_key;
static pthread_once_t bell_once = PTHREAD_ONCE_INIT;

/* Closes the bell when its thread ends. */
static void close_bell(void *bell)
{
	if (bell_generation == rs_generation)
		close((int)(intptr_t)bell - 1);
	own_bell = 0;
}

static void make_bell_key(void)
{
	pthread_key_create(&bell_key, close_bell);
}

int rs_bell(void)
{
	/* A child of a fork makes its own bell: that of the parent would swallow its events. */
	if (own_bell && bell_generation != rs_generation) {
		close(own_bell - 1);
		own_bell = 0;
	}
	if (!own_bell) {
		int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		if (fd < 0)
			return -errno;
		pthread_once(&bell_once, make_bell_key);
		own_bell = fd + 1;
		bell_generation = rs_generation;
		pthread_setspecific(bell_key, (void *)(intptr_t)own_bell);
	}
	return own_bell - 1;
}

void rs_bell_silence(void)
{
	uint64_t rings;

	while (read(own_bell - 1, &rings, sizeof(rings)) < 0 && errno == EINTR)
		;
}

void rs_watch(struct rs_socket *s, struct rs_watcher *watcher, int bell)
{
	watcher->bell = bell;
	watcher->next = s->watchers;
	watcher->previous = &s->watchers;
	if (s->watchers)
		s->watchers->previous = &watcher->next;
	s->watchers = watcher;
}

void rs_unwatch(struct rs_watcher *watcher)
{
	*watcher->previous = watcher->next;
	if (watcher->next)
		watcher->next->previous = watcher->previous;
}

void rs_ring(struct rs_socket *s)
{
	uint64_t one = 1;

	for (struct rs_watcher *w = s->watchers; w; w = w->next) {
		if (w->bell == own_bell - 1)
			continue;
		while (write(w->bell, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}
