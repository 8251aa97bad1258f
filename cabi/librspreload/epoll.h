/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll(7) with rsockets among the descriptors. */
#ifndef VERBENA_RSPRELOAD_EPOLL_H
#define VERBENA_RSPRELOAD_EPOLL_H

/* Forgets a descriptor that is closed: as a set, and as a member of sets. */
void epoll_forget(int fd);

#endif
