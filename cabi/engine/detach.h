/*
 * Programs that are nobody's child: detach.c.
 */
#ifndef VB_DETACH_H
#define VB_DETACH_H

/* Executes a program apart from this process: 0 or an errno. */
int vb_detach(const char *path, char *const argv[]);

/* The directory of the libraries, or an empty string. */
void vb_library_dir(char *dir, unsigned size);

#endif
