/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts by the descriptor of another: ibv_import_device(3). pd.c, mr.c and dm.c import objects.
 *
 * An imported context is one of its own on the same device. Its process has another engine, so an
 * imported domain or region stands for the original: it has a number and keys of its own.
 */
#include "share.h"

#include <errno.h>
#include <string.h>

/* Returns the device of a name and GUID in a list, or NULL. */
static struct ibv_device *device_in(struct ibv_device **list, const char *name, uint64_t guid)
{
	for (; *list; list++)
		if (strcmp((*list)->name, name) == 0 && vb_device_of(*list)->guid == guid)
			return *list;
	errno = ENODEV;
	return NULL;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_context *, ibv_import_device, (int cmd_fd), (cmd_fd))
{
	struct ibv_context *ctx = NULL;
	char name[IBV_SYSFS_NAME_MAX];
	struct ibv_device **list, *device;
	uint64_t guid;
	int err = vb_share_device(cmd_fd, name, &guid);

	if (err) {
		errno = err;
		return NULL;
	}
	list = ibv_get_device_list(NULL);
	if (!list)
		return NULL;
	device = device_in(list, name, guid);
	if (device)
		ctx = ibv_open_device(device);
	err = errno;
	ibv_free_device_list(list);
	errno = err;
	if (!ctx)
		return NULL;
	err = vb_share_join(vb_context_of(ctx), cmd_fd);
	if (err) {
		ibv_close_device(ctx);
		errno = err;
		return NULL;
	}
	return ctx;
}
