/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptors of the application that are rsockets. Each is an ordinary socket of the kernel as
 * well: it keeps the number, answers fstat(2), and takes over where RDMA does not reach the peer.
 */
#ifndef VERBENA_RSPRELOAD_TABLE_H
#define VERBENA_RSPRELOAD_TABLE_H

#include <stdatomic.h>

/*
 * With RDMAV_FORK_SAFE a connection begins as TCP and becomes an rsocket when
 * it is first used: in the process, perhaps forked meanwhile, that uses it.
 */
enum stage {
	STAGE_RSOCKET,    /* number is an rsocket */
	STAGE_TCP,	    /* made with RDMAV_FORK_SAFE; not connected */
	STAGE_LISTEN, /* accepted connections become */
	STAGE_ACTIVE, /* connected: becomes an rsocket when the peer says so */
	STAGE_PASSIVE, /* accepted: becomes an rsocket when it is used */
};

/* The object behind a descriptor and its duplicates. */
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
/* Enters it, with the reference of the caller. 0 or -1 with errno. */
int table_set(int fd, struct entry *e);
/* Removes and returns it; NULL if it was not in. The caller puts it. */
struct entry *table_take(int fd);

#endif
