/* SPDX-License-Identifier: BSD-2-Clause */
/* Brings the counters below /sys/class/infiniband up to date (counters.c). */
#ifndef VERBENA_PRELOAD_COUNTERS_H
#define VERBENA_PRELOAD_COUNTERS_H

/*
 * Called before the program reads the redirected path. If that is a file of counters or a directory
 * of them, all get their values of now. Keeps errno.
 */
void refresh_counters(const char *path);

#endif
