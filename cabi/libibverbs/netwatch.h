/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether network interfaces or their addresses have changed (netwatch.c).
 */
#ifndef VERBENA_NETWATCH_H
#define VERBENA_NETWATCH_H

/*
 * Says whether nothing has changed since the last call: 0 where that cannot be
 * told. What changes from now on is the next call's. Calls come one at a time.
 */
int vb_net_unchanged(void);

/* In a child: what it inherited is its parent's. */
void vb_net_after_fork_in_child(void);

#endif
