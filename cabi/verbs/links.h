/*
 * Links of windows, whose devices the engine knows: VERBENA_NTB names them
 * (links.c).
 */
#ifndef VERBENA_LINKS_H
#define VERBENA_LINKS_H

#include "engine.h"

/* What ibv_get_device_list finds at most. */
#define VB_LINKS 64

/* Reads the links: how many there are, or a negative errno. Not under the front's locks. */
int vb_links_read(struct vb_link links[VB_LINKS]);

/* Reads the link of a number: 0 or an errno. */
int vb_link_read(unsigned index, struct vb_link *link);

#endif
