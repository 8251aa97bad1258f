/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena-keeper, which is beside this library, does work in a process apart (helper.c). */
#ifndef VERBENA_PRELOAD_HELPER_H
#define VERBENA_PRELOAD_HELPER_H

/* Runs `verbena-keeper COMMAND VERBENA_ROOT` to its end. Returns 0, or -1 and errno. */
int run_helper(const char *command);

/*
 * Starts `verbena-keeper COMMAND VERBENA_ROOT`, which has one end of a pair of sockets as its
 * standard input. They keep messages apart. Returns the other end once the helper has sent a first
 * message, or -1 and errno. It is closed by an exec.
 */
int start_helper(const char *command);

#endif
