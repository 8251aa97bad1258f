/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of the process's exit: leave.c.
 */
#ifndef VB_LEAVE_H
#define VB_LEAVE_H

#include <stdint.h>

enum vb_exit {
	VB_EXIT_UNATTENDED, /* nobody in the engine would care */
	VB_EXIT_ATTENDED,
	VB_EXIT_BEGUN,
	VB_EXIT_DONE /* what was owed is done */
};

void vb_exit_becomes(uint32_t state);
/* Returns when the exit is in another state. */
void vb_exit_leaves(uint32_t state);

#endif
