/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the application's descriptors are rsockets. Each of those is an
 * ordinary socket of the kernel as well, which keeps the number, answers
 * fstat(2), and takes over where the peer cannot be reached by RDMA.
 */
#ifndef VERBENA_RSPRELOAD_TABLE_H
#define VERBENA_RSPRELOAD_TABLE_H

#include <stdatomic.h>

/*
 * With RDMAV_FORK_SAFE a connection begins as TCP and becomes an rsocket when
 * it is first used: in the process, perhaps forked meanwhile, that uses it.
 */
enum stage {
	STAGE_RSOCKET,    /* number is one */
	STAGE_TCP,	    /* made with RDMAV_FORK_SAFE; not connected */
	STAGE_LISTEN, /* what it accepts becomes an rsocket */
	STAGE_ACTIVE, /* connected: to become one when the peer says so */
	STAGE_PASSIVE, /* accepted: to become one when it is used */
};

/* What descriptors, if it was duplicated, stand for. */
struct entry {
	_Atomic int references; /* descriptors and calls */
	_Atomic int stage;
	_Atomic int number; /* of the rsocket, or -1 */
};

/* Returns with one reference; NULL: errno. */
struct entry *entry_new(enum stage stage, int number);
/* Closes the rsocket with the last reference. */
void entry_put(struct entry *e);

/* NULL where the descriptor is not in the table. The caller puts it. */
struct entry *table_get(int fd);
/* Takes the caller's reference over. 0 or -1 with errno. */
int table_set(int fd, struct entry *e);
/* Takes it out; NULL if it was not in. The caller puts it. */
struct entry *table_take(int fd);

#endif
