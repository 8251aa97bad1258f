/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that two processes have mapped (share.h): the mappings of each, as /proc/PID/maps lists
 * them, name the file and the offset. Memory that is shared by fork has a file of its own there.
 */
#define _GNU_SOURCE
#include "share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A range of addresses that a file is mapped to in one piece, by one mapping or several. */
struct mapping {
	uint64_t start, end;
	uint64_t offset; /* in the file, of start */
	uint64_t inode;	 /* 0: not memory that is shared */
	unsigned major, minor;
	char writable;
};

static int same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode && a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* Reads the next mapping of a list. Returns whether there is one. */
static int next_mapping(FILE *maps, char **line, size_t *room, struct mapping *m)
{
	char shared, write;

	while (getline(line, room, maps) > 0)
		if (sscanf(*line, "%" SCNx64 "-%" SCNx64 " %*c%c%*c%c %" SCNx64 " %x:%x %" SCNu64,
			   &m->start, &m->end, &write, &shared, &m->offset, &m->major, &m->minor,
			   &m->inode) == 8) {
			m->writable = write == 'w';
			if (shared != 's')
				m->inode = 0;
			return 1;
		}
	return 0;
}

/* Which range is sought: that of an address, or that of an offset in a file. */
struct wanted {
	const struct mapping *file; /* or NULL */
	uint64_t first, length;
};

/* Returns whether a range contains all that is wanted. */
static int contains(const struct mapping *m, const struct wanted *w)
{
	uint64_t from = w->file ? m->offset : m->start, bytes = m->end - m->start;

	if (w->file && !same_file(m, w->file))
		return 0;
	return w->first >= from && w->first - from <= bytes &&
	       w->length <= bytes - (w->first - from);
}

/* Finds a range of a process: 0 or an errno. */
static int find(pid_t pid, const struct wanted *w, struct mapping *found)
{
	struct mapping m, all = {0};
	char name[32], *line = NULL;
	size_t room = 0;
	int err = EFAULT;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	if (!maps)
		return errno;
	while (err && next_mapping(maps, &line, &room, &m)) {
		if (same_file(&m, &all) && m.start == all.end && m.writable == all.writable &&
		    m.offset == all.offset + (all.end - all.start))
			all.end = m.end;
		else
			all = m;
		if (contains(&all, w))
			err = 0;
	}
	*found = all;
	free(line);
	fclose(maps);
	return err;
}

int vb_share_pages(const struct vb_share *object, int own, void **map, size_t *map_length,
		   void **at)
{
	struct wanted w = {.first = object->addr, .length = object->length};
	size_t page = (size_t)sysconf(_SC_PAGESIZE), within;
	struct mapping theirs, ours, copy;
	int err;

	/* Another PID namespace may have the same number. */
	if (object->pid == getpid() && !own)
		return EFAULT;
	err = find(object->pid, &w, &theirs);
	if (err)
		return err;
	if (!theirs.inode)
		return EFAULT; /* its own memory */
	w.file = &theirs;
	w.first = theirs.offset + (object->addr - theirs.start);
	err = find(getpid(), &w, &ours);
	if (err)
		return err;
	within = w.first & (page - 1);
	*map_length = (object->length + within + page - 1) & ~(page - 1);
	/* Of no bytes, the call makes a second mapping of the same pages. */
	*map = mremap((void *)(uintptr_t)(ours.start + (w.first - within - ours.offset)), 0,
		      *map_length, MREMAP_MAYMOVE);
	if (*map == MAP_FAILED)
		return errno == EINVAL ? EOPNOTSUPP : errno;
	*at = (char *)*map + within;
	/* Nothing else was mapped there meanwhile. */
	w.file = NULL;
	w.length = object->length;
	w.first = (uintptr_t)*at;
	err = find(getpid(), &w, &copy);
	if (!err && (!same_file(&copy, &theirs) ||
		     copy.offset + (w.first - copy.start) !=
			     theirs.offset + (object->addr - theirs.start)))
		err = EFAULT;
	if (err)
		munmap(*map, *map_length);
	return err;
}
