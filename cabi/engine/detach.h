/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are nobody's child: detach.c.
 */
#ifndef VB_DETACH_H
#define VB_DETACH_H

/*
 * Executes a program with three arguments apart from this process: 0 or an errno. With await
 * set the program is one that starts another and ends; its failure is EAGAIN.
 */
int vb_detach(const char *path, int await, const char *a, const char *b, const char *c);

/* The directory of the libraries, or an empty string. */
void vb_library_dir(char *dir, unsigned size);

#endif
