/* SPDX-License-Identifier: BSD-2-Clause */
#include "table.h"

#include "forklock.h"

#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

/* Higher descriptors stay those of the kernel. */
#define DESCRIPTORS 65536

static struct entry *_Atomic table[DESCRIPTORS];
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards the references that table holds */

struct entry *entry_new(enum stage stage, int number)
{
	struct entry *e = malloc(sizeof(*e));

	if (!e)
		return NULL;
	atomic_init(&e->references, 1);
	atomic_init(&e->stage, stage);
	atomic_init(&e->number, number);
	return e;
}

void entry_put(struct entry *e)
{
	if (atomic_fetch_sub(&e->references, 1) != 1)
		return;
	int number = atomic_load(&e->number), error = errno;

	if (number >= 0)
		rclose(number);
	free(e);
	errno = error; /* the caller is about to return it */
}

struct entry *table_get(int fd)
{
	/* The first check takes no lock: most descriptors are no rsockets. */
	if (fd < 0 || fd >= DESCRIPTORS || !atomic_load(&table[fd]))
		return NULL;
	pthread_mutex_lock(&mu);
	struct entry *e = atomic_load(&table[fd]);

	if (e)
		atomic_fetch_add(&e->references, 1);
	pthread_mutex_unlock(&mu);
	return e;
}

int table_set(int fd, struct entry *e)
{
	if (fd >= DESCRIPTORS) {
		errno = EMFILE;
		return -1;
	}
	pthread_mutex_lock(&mu);
	struct entry *before = atomic_exchange(&table[fd], e);

	pthread_mutex_unlock(&mu);
	if (before)
		entry_put(before);
	return 0;
}

struct entry *table_take(int fd)
{
	if (fd < 0 || fd >= DESCRIPTORS || !atomic_load(&table[fd]))
		return NULL;
	pthread_mutex_lock(&mu);
	struct entry *e = atomic_exchange(&table[fd], NULL);

	pthread_mutex_unlock(&mu);
	return e;
}

VB_HELD_OVER_FORK(&mu);
