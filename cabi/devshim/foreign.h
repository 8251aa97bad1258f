/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another libibverbs than ours: foreign.c.
 */
#ifndef VERBENA_PRELOAD_FOREIGN_H
#define VERBENA_PRELOAD_FOREIGN_H

/* Says once a process that another libibverbs is loaded, if one is. errno stays. */
void look_for_another(void);

#endif
