/* SPDX-License-Identifier: BSD-2-Clause */
/* Detects a libibverbs other than Verbena's (foreign.c). */
#ifndef VERBENA_PRELOAD_FOREIGN_H
#define VERBENA_PRELOAD_FOREIGN_H

/* Reports once per process that another libibverbs is loaded, if one is. Keeps errno. */
void look_for_another(void);

/* Returns whether another libibverbs is loaded. */
int another_is_loaded(void);

#endif
