/* SPDX-License-Identifier: BSD-2-Clause */
/* The index has two levels: numbers are small and dense as a rule, but may be large. */
#include "index.h"

#include "forklock.h"

#include <stdlib.h>
#include <unistd.h>

#define PAGE_ENTRIES 1024
#define PAGES 1024

static struct rs_socket **pages[PAGES];
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct rs_socket **slot(int number)
{
	if (number < 0 || number >= PAGES * PAGE_ENTRIES || !pages[number / PAGE_ENTRIES])
		return NULL;
	return &pages[number / PAGE_ENTRIES][number % PAGE_ENTRIES];
}

int rs_index_insert(struct rs_socket *s, int number)
{
	int error = 0;

	if (number >= PAGES * PAGE_ENTRIES)
		return -EMFILE;
	pthread_mutex_lock(&mu);
	if (!pages[number / PAGE_ENTRIES])
		pages[number / PAGE_ENTRIES] = calloc(PAGE_ENTRIES, sizeof(struct rs_socket *));
	struct rs_socket **entry = slot(number);

	if (entry) {
		s->number = number;
		*entry = rs_hold(s);
	} else {
		error = -ENOMEM;
	}
	pthread_mutex_unlock(&mu);
	return error;
}

void rs_index_remove(struct rs_socket *s)
{
	pthread_mutex_lock(&mu);
	struct rs_socket **entry = slot(s->number);
	bool here = entry && *entry == s;

	if (here)
		*entry = NULL;
	pthread_mutex_unlock(&mu);
	if (here)
		rs_put(s);
}

struct rs_socket *rs_index_get(int number)
{
	struct rs_socket *s = NULL;

	pthread_mutex_lock(&mu);
	struct rs_socket **entry = slot(number);

	if (entry && *entry && (*entry)->generation == rs_generation)
		s = rs_hold(*entry);
	pthread_mutex_unlock(&mu);
	return s;
}

bool rs_index_disown(int number)
{
	bool parents;

	pthread_mutex_lock(&mu);
	struct rs_socket **entry = slot(number);

	parents = entry && *entry && (*entry)->generation != rs_generation;
	if (parents)
		*entry = NULL; /* its memory stays: threads that fork did not copy may hold its locks */
	pthread_mutex_unlock(&mu);
	if (parents)
		close(number);
	return parents;
}

/* A fork takes the lock, so that the child does not find it held. */
VB_HELD_OVER_FORK(&mu);
