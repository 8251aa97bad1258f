/* SPDX-License-Identifier: BSD-2-Clause */
/* Valgrind around the process. */
#ifndef VERBENA_VALGRIND_H
#define VERBENA_VALGRIND_H

#include <dlfcn.h>
#include <stddef.h>

/*
 * Reports whether valgrind runs this process: its core library is loaded then, with
 * every tool and whichever program started it.
 */
static inline int vb_under_valgrind(void)
{
	return dlsym(RTLD_DEFAULT, "_vgnU_freeres") != NULL;
}

#endif
