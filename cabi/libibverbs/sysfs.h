/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that drivers have under /sys/class/infiniband, which here are made
 * when they are read (sysfs.c).
 */
#ifndef VERBENA_SYSFS_H
#define VERBENA_SYSFS_H

#include <stddef.h>

/* Writes the root of sysfs, class and name as a path; cuts it if it is too long. */
void vb_sysfs_path(char *path, size_t size, const char *class, const char *name);

#endif
