/* SPDX-License-Identifier: BSD-2-Clause */
/* Detects valgrind. */
#ifndef VERBENA_VALGRIND_H
#define VERBENA_VALGRIND_H

#include <dlfcn.h>
#include <stddef.h>

/*
 * Returns whether the process runs under valgrind. Its core library is loaded then, with every tool
 * and however the program was started.
 */
static inline int vb_under_valgrind(void)
{
	return dlsym(RTLD_DEFAULT, "_vgnU_freeres") != NULL;
}

#endif
