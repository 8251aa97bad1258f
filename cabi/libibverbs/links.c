/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of windows. What they are is the engine's knowledge: it alone reads their
 * configuration, and says which end of a link is ours. So a program that is to
 * find them loads the engine when it lists its devices.
 */
#include "links.h"
#include "front.h"

#include <errno.h>
#include <stdlib.h>

int vb_links_read(struct vb_link **links)
{
	const struct vb_engine *engine = vb_engine_get();
	unsigned count = 0, room;
	int err = engine ? 0 : errno;

	*links = NULL;
	if (err)
		return -err;
	do { /* a program may name more meanwhile */
		free(*links);
		room = count;
		*links = calloc(room + 1, sizeof(**links));
		if (!*links)
			return -ENOMEM;
		err = engine->links(*links, 0, room, &count);
	} while (!err && count > room);
	if (!err)
		return count;
	free(*links);
	*links = NULL;
	return -err;
}

int vb_link_read(unsigned index, struct vb_link *link)
{
	const struct vb_engine *engine = vb_engine_get();
	unsigned count = 0;
	int err = engine ? engine->links(link, index, 1, &count) : errno;

	return err ? err : index < count ? 0 : ENODEV;
}
