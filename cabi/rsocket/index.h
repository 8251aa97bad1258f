/* SPDX-License-Identifier: BSD-2-Clause */
/* Which socket a number means. Numbers are descriptors of the kernel's, so that none means two things. */
#ifndef VERBENA_RSOCKET_INDEX_H
#define VERBENA_RSOCKET_INDEX_H

#include "socket.h"

/* The index holds a reference from insert to remove. 0 or a negative errno. */
int rs_index_insert(struct rs_socket *s, int number);
void rs_index_remove(struct rs_socket *s);
/* The caller puts the reference. NULL where the number means nothing to us. */
struct rs_socket *rs_index_get(int number);
/*
 * Forgets a socket that a fork gave us and that is the parent's, and closes
 * the descriptor. False if it is none.
 */
bool rs_index_disown(int number);

#endif
