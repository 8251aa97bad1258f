/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pipes that events come through. The engine writes records, each in one
 * write; the application has the reading end, which it may poll and set
 * O_NONBLOCK on.
 */
#ifndef VERBENA_PIPE_H
#define VERBENA_PIPE_H

#include "front.h"

/* Makes a pipe: ends[0] to read, ends[1] to write without blocking. 0 or an errno. */
int vb_pipe_open(int ends[2]);

/*
 * Reads one record of size bytes: 0 or an errno, EAGAIN where O_NONBLOCK is set
 * and there is none. Before it sleeps it tells the engine of ctx.
 */
int vb_pipe_read(int fd, void *record, size_t size, struct vb_context *ctx);

/*
 * Removes the records of an object that is gone: those that hold cookie at
 * offset. A descriptor that polls readable has something to read then.
 */
void vb_pipe_purge(int read_fd, int write_fd, size_t size, size_t offset, vb_cookie cookie);

#endif
