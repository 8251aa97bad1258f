/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of windows, whose devices the engine knows: VERBENA_NTB names them
 * (links.c).
 */
#ifndef VERBENA_LINKS_H
#define VERBENA_LINKS_H

#include "engine.h"

/*
 * Reads the links, which the caller frees: how many there are, or a negative errno. Not
 * under the front's locks.
 */
int vb_links_read(struct vb_link **links);

/* Reads the link of a number: 0 or an errno. */
int vb_link_read(unsigned index, struct vb_link *link);

#endif
