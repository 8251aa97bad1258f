/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll(7) of rsockets, of rdma-core 65: repoll_create, repoll_ctl, repoll_wait. */
#ifndef VERBENA_RSOCKET_EPOLL_H
#define VERBENA_RSOCKET_EPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

/* No header of rdma-core 44 has them. */
#pragma GCC visibility push(default)
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);
#pragma GCC visibility pop

/* Takes an rsocket that is closed out of all sets. */
void rs_epoll_forget(int fd);
/* Closes a set. Returns false if the number is none. */
bool rs_epoll_close(int epfd);

#endif
