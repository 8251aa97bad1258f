/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AddressSanitizer as a shared library (gcc's, and clang's -shared-libasan) wants to
 * be the first library of a process, which one of LD_PRELOAD is before it. The order
 * is for its malloc and the like to come before all others'. There are none here, and
 * what this shim passes on goes to the next library, which is the sanitizer's. So the
 * order is right, and its check is off. ASAN_OPTIONS still has the last word.
 */
#include "next.h"

EXPORT const char *__asan_default_options(void);
EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
