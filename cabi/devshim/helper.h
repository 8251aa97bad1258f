/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena-keeper, which is beside this library, does work in a process apart (helper.c). */
#ifndef VERBENA_PRELOAD_HELPER_H
#define VERBENA_PRELOAD_HELPER_H

/* Runs `verbena-keeper COMMAND VERBENA_ROOT` to its end. Returns 0, or -1 and errno. */
int run_helper(const char *command);

#endif
