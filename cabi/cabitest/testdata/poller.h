/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the Go runtime's poller is there, whose descriptors a daemon would close,
 * and be ended for it.
 */
#ifndef POLLER_H
#define POLLER_H

#include <dirent.h>
#include <stdio.h>

/*
 * Whether a descriptor is the runtime's poller: that one notes its eventfd by an
 * address. Ours note theirs by numbers that are small, or negative.
 */
static int is_pollers(const char *fd)
{
	char path[300], line[200];
	unsigned long long data;
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &data) == 1 && data >> 32 && !(data >> 63))
			found = 1;
	if (f)
		fclose(f);
	return found;
}

/* How many descriptors are the poller's, or -1. */
__attribute__((unused)) static int count_pollers(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	if (!dir)
		return -1;
	while ((e = readdir(dir)))
		n += is_pollers(e->d_name);
	closedir(dir);
	return n;
}

#endif
