/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AddressSanitizer as a shared library (that of gcc, and clang -shared-libasan) demands to be the
 * first library of a process. But libraries of LD_PRELOAD are loaded before it. It wants its malloc
 * and other functions to precede all others. This shim defines none of them and passes its calls on
 * to the next library, the sanitizer. So the order is right, and this turns its check off.
 * ASAN_OPTIONS takes precedence.
 */
#include "next.h"

EXPORT const char *__asan_default_options(void);
EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
