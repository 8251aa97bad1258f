/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAV_FORK_SAFE: TCP connections that become rsockets when they are used. */
#ifndef VERBENA_RSPRELOAD_FORK_H
#define VERBENA_RSPRELOAD_FORK_H

/* Makes the connection an rsocket if it waits for that. Keeps errno. */
void become_rsocket(int fd);

#endif
