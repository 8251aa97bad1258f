/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll(7) with rsockets among the descriptors. */
#ifndef VERBENA_RSPRELOAD_EPOLL_H
#define VERBENA_RSPRELOAD_EPOLL_H

/* The descriptor is closed: it is in no set any more, and is none. */
void epoll_forget(int fd);

#endif
