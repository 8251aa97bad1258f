/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors of the process. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* Counts the process's descriptors; it ends the process if it cannot. */
static inline int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir) {
		perror("/proc/self/fd");
		_exit(1);
	}
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
