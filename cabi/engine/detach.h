/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are nobody's child: detach.c.
 */
#ifndef VB_DETACH_H
#define VB_DETACH_H

/* Executes a program with three arguments apart from this process: 0 or an errno. */
int vb_detach(const char *path, const char *a, const char *b, const char *c);

/* The directory of the libraries, or an empty string. */
void vb_library_dir(char *dir, unsigned size);

#endif
