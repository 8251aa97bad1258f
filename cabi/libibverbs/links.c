/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NTB links. The engine alone reads their configuration and knows which end of a link this process
 * has. So listing NTB devices loads the engine.
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
	do { /* the program may name more meanwhile */
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
