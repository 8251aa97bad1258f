/* SPDX-License-Identifier: BSD-2-Clause */
/* SIGUSR1 of programs that leave it to its default action (usr1.c). */
#ifndef VB_USR1_H
#define VB_USR1_H

#include <stdint.h>

/* Takes the signal, unless the program wants it: whether it did. */
int vb_usr1_take(void);
/* The number of signals so far. */
uint32_t vb_usr1_count(void);
/* Returns when the number of signals is not the one given, or after vb_usr1_stop. */
uint32_t vb_usr1_await(uint32_t count);
/* Gives the signal back: whether it was still taken. */
int vb_usr1_stop(void);

#endif
