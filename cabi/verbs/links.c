/*
 * Links of windows. What they are is the engine's knowledge: it alone reads their
 * configuration, and says which end of a link is ours. So a program that is to
 * find them loads the engine when it lists its devices.
 */
#include "links.h"
#include "front.h"

#include <errno.h>

int vb_links_read(struct vb_link links[VB_LINKS])
{
	const struct vb_engine *engine = vb_engine_get();
	unsigned count = 0;
	int err = engine ? engine->links(links, VB_LINKS, &count) : errno;

	if (err)
		return -err;
	return count < VB_LINKS ? count : VB_LINKS;
}

int vb_link_read(unsigned index, struct vb_link *link)
{
	struct vb_link links[VB_LINKS];
	int n = vb_links_read(links);

	if (n < 0)
		return -n;
	if (index >= (unsigned)n)
		return ENODEV;
	*link = links[index];
	return 0;
}
