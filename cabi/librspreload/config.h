/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of user and administrator for sockets that become rsockets. */
#ifndef VERBENA_RSPRELOAD_CONFIG_H
#define VERBENA_RSPRELOAD_CONFIG_H

#include <stdbool.h>

/*
 * Returns whether /etc/rdma/rsocket/preload_config selects a socket. Without the file it selects
 * all.
 */
bool config_wants(int domain, int type, int protocol);
/* RDMAV_FORK_SAFE */
bool config_forks(void);
/* Applies RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE to a new rsocket. */
void config_apply(int number);

#endif
