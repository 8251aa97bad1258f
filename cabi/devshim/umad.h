/* SPDX-License-Identifier: BSD-2-Clause */
/* Stands for /dev/infiniband/umadN (umad.c). */
#ifndef VERBENA_PRELOAD_UMAD_H
#define VERBENA_PRELOAD_UMAD_H

/*
 * Sets *fd to a descriptor of the node, or to -1 and errno. Returns 0 and does nothing if path, as
 * the program wrote it, is no umadN.
 */
int open_umad(const char *path, int flags, int *fd);

/* Sets *result and errno. Returns 0 if the request is none of a umadN. */
int ioctl_umad(int fd, unsigned long request, void *arg, int *result);

#endif
