/* SPDX-License-Identifier: BSD-2-Clause */
/* Detects changes of network interfaces and their addresses (netwatch.c). */
#ifndef VERBENA_NETWATCH_H
#define VERBENA_NETWATCH_H

/*
 * Returns whether nothing has changed since the last call; 0 if that is unknown. Later changes
 * count for the next call. The caller serialises calls.
 */
int vb_net_unchanged(void);

/* In a child of a fork: the inherited socket belongs to the parent. */
void vb_net_after_fork_in_child(void);

#endif
