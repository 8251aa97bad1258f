/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user and the administrator say of sockets that become rsockets. */
#ifndef VERBENA_RSPRELOAD_CONFIG_H
#define VERBENA_RSPRELOAD_CONFIG_H

#include <stdbool.h>

/* By /etc/rdma/rsocket/preload_config; all, where there is none. */
bool config_wants(int domain, int type, int protocol);
/* RDMAV_FORK_SAFE */
bool config_forks(void);
/* RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE, for a new rsocket. */
void config_apply(int number);

#endif
