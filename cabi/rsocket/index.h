/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds sockets by number. Numbers are descriptors of the kernel, so that none has two meanings. */
#ifndef VERBENA_RSOCKET_INDEX_H
#define VERBENA_RSOCKET_INDEX_H

#include "socket.h"

/* The index holds a reference from insert to remove. 0 or a negative errno. */
int rs_index_insert(struct rs_socket *s, int number);
void rs_index_remove(struct rs_socket *s);
/* Returns a reference, which the caller puts, or NULL if the number is no rsocket. */
struct rs_socket *rs_index_get(int number);
/*
 * Forgets a socket of the parent after a fork, and closes the descriptor. Returns false if the
 * number is no such socket.
 */
bool rs_index_disown(int number);

#endif
