/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread behind the sockets of a process. It works while the application makes no call: it
 * takes connection manager events (a listener accepts, a connection is made or lost), datagrams
 * that come over UDP, and keep-alive timers. It starts with the first socket that needs it, blocks
 * all signals, and makes no call that waits for the network.
 */
#ifndef VERBENA_RSOCKET_SERVICE_H
#define VERBENA_RSOCKET_SERVICE_H

#include "socket.h"

/*
 * Makes ops->service be called with which while fd is readable, until rs_service_remove or until
 * the socket leaves the index. Returns 0 or a negative errno.
 */
int rs_service_add(struct rs_socket *s, int fd, int which);
void rs_service_remove(int fd);

/* Starts the thread if need be, and makes it call rs_keepalive_run. */
int rs_service_kick(void);

#endif
