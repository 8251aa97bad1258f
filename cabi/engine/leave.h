/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of an exit (leave.c). */
#ifndef VB_LEAVE_H
#define VB_LEAVE_H

#include <stdint.h>

enum vb_exit {
	VB_EXIT_UNATTENDED, /* no thread of the engine waits for the exit */
	VB_EXIT_ATTENDED,
	VB_EXIT_BEGUN,
	VB_EXIT_DONE /* the engine has finished */
};

/* Tells an exiting thread that the engine makes progress: it waits on. */
void vb_exit_works(void);
void vb_exit_becomes(uint32_t state);
/* Returns when the exit has left a state. */
void vb_exit_leaves(uint32_t state);

#endif
