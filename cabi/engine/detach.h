/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are nobody's child: detach.c.
 */
#ifndef VB_DETACH_H
#define VB_DETACH_H

/*
 * Executes a program with up to three arguments apart from this process: 0 or an errno. With await
 * set the program is one that ends soon, and is waited for; its failure is EAGAIN. Its standard
 * input is the descriptor in, of 3 or more, or /dev/null if that is negative.
 */
int vb_detach(const char *path, int await, int in, const char *a, const char *b, const char *c);

/* The directory of the libraries, or an empty string. */
void vb_library_dir(char *dir, unsigned size);

#endif
