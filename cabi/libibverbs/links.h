/* SPDX-License-Identifier: BSD-2-Clause */
/* NTB links, which VERBENA_NTB names. The engine knows their devices (links.c). */
#ifndef VERBENA_LINKS_H
#define VERBENA_LINKS_H

#include "engine.h"

/*
 * Reads the links into memory that the caller frees. Returns their number or a negative errno. The
 * caller holds no lock of the front.
 */
int vb_links_read(struct vb_link **links);

/* Reads the link with a number: 0 or an errno. */
int vb_link_read(unsigned index, struct vb_link *link);

#endif
