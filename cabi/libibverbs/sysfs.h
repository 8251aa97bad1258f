/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of drivers under /sys/class/infiniband, made when they are read (sysfs.c). */
#ifndef VERBENA_SYSFS_H
#define VERBENA_SYSFS_H

#include <stddef.h>

/* Writes a path of the root of sysfs, class and name, cut to the room. */
void vb_sysfs_path(char *path, size_t size, const char *class, const char *name);

#endif
