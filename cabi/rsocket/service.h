/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one thread behind the sockets of a process. It does what the application
 * may not be there for: connection manager events (a listener accepts and a
 * connection is made or lost while nobody calls), datagrams that come over UDP,
 * and keep-alive messages. It starts with the first socket that needs it,
 * blocks all signals, and makes no call that waits for the network.
 */
#ifndef VERBENA_RSOCKET_SERVICE_H
#define VERBENA_RSOCKET_SERVICE_H

#include "socket.h"

/*
 * Has ops->service called, with which, while fd is readable, until rs_service_remove
 * or the socket leaves the index. 0 or a negative errno.
 */
int rs_service_add(struct rs_socket *s, int fd, int which);
void rs_service_remove(int fd);

/* Makes the thread run, and look at rs_keepalive_run again. */
int rs_service_kick(void);

#endif
