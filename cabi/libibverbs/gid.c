/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GID tables: ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3). gidtable.c decides
 * which addresses they have.
 */
#define _GNU_SOURCE
#include "front.h"
#include "private.h"
#include "gid.h"
#include "links.h"
#include "device_limits.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The macro ibv_query_gid_ex passes a structure of at least this size. */
_Static_assert(sizeof(struct ibv_gid_entry) == 32, "as the kernel has it");

static int table_len(const struct vb_device *device)
{
	return device->kind->port.gid_tbl_len;
}

/*
 * Returns the one entry of an iWARP device: the MAC address and zeros, as siw has it. Peers are
 * named by IP address and port, so no packet is sent to it.
 */
static void mac_gid(const struct vb_device *device, union ibv_gid *gid)
{
	uint64_t eui = htobe64(device->guid);
	const uint8_t *e = (const uint8_t *)&eui;

	memset(gid, 0, sizeof(*gid));
	memcpy(gid->raw, e, 3);
	gid->raw[0] ^= 2; /* RFC 4291, appendix A inverts this bit */
	memcpy(gid->raw + 3, e + 5, 3);
}

/* Reads the GIDs without their types. */
static int read_gids(const struct vb_device *device, union ibv_gid *gids)
{
	struct vb_link link;

	if (device->kind->links) {
		int err = vb_link_read(device->ifindex, &link);

		if (err)
			return -err;
		memcpy(gids, link.gids, sizeof(link.gids));
		return sizeof(link.gids) / sizeof(link.gids[0]);
	}
	if (device->kind->gid_type == IBV_GID_TYPE_ROCE_V2)
		return vb_gid_addrs(device->netdev, gids, table_len(device));
	mac_gid(device, gids);
	return 1;
}

int vb_gid_table(const struct vb_device *device, struct ibv_gid_entry *entries, int max)
{
	union ibv_gid *gids = calloc(table_len(device), sizeof(*gids));
	int n = gids ? read_gids(device, gids) : -ENOMEM;

	if (n > 0)
		memset(entries, 0, (n < max ? n : max) * sizeof(*entries));
	for (int i = 0; i < n && i < max; i++) {
		if (vb_gid_is_free(&gids[i]))
			continue;
		entries[i].gid = gids[i];
		entries[i].gid_index = i;
		entries[i].port_num = 1;
		entries[i].gid_type = device->kind->gid_type;
		entries[i].ndev_ifindex = device->kind->links ? 0 : device->ifindex;
	}
	free(gids);
	return n;
}

/*
 * Finds an entry: 0, ENODATA if it is empty, or another errno.
 *
 * A device whose interface is gone has an empty table.
 */
static int find(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	struct ibv_gid_entry *all;
	int n, err = 0;

	memset(entry, 0, sizeof(*entry));
	if (port != 1 || index >= (uint32_t)table_len(vb_context_of(ctx)->device))
		return EINVAL;
	all = calloc(index + 1, sizeof(*all));
	if (!all)
		return ENOMEM;
	n = vb_gid_table(vb_context_of(ctx)->device, all, index + 1);
	if (n > (int)index && !vb_gid_is_free(&all[index].gid))
		*entry = all[index];
	else
		err = n < 0 && n != -ENODEV ? -n : ENODATA;
	free(all);
	return err;
}

/* A free index within the table has the GID ::. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_query_gid,
	(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid), (ctx, port, index, gid))
{
	struct ibv_gid_entry entry;
	int err = gid ? find(ctx, port, index, &entry) : EINVAL;

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}

VB_EXPORT VB_RETURNS_ERRNO(_ibv_query_gid_ex,
			   (struct ibv_context *ctx, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t size),
			   (ctx, port, index, entry, flags, size))
{
	struct ibv_gid_entry full;
	int err;

	if (!entry || flags || size < sizeof(entry->gid))
		return EINVAL;
	err = find(ctx, port, index, &full);
	if (err)
		return err;
	memset(entry, 0, size);
	memcpy(entry, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

VB_EXPORT VB_RETURNS_NEGATIVE_ERRNO(ssize_t, _ibv_query_gid_table,
				    (struct ibv_context *ctx, struct ibv_gid_entry *entries,
				     size_t max, uint32_t flags, size_t size),
				    (ctx, entries, max, flags, size))
{
	const struct vb_device *device = vb_context_of(ctx)->device;
	struct ibv_gid_entry *all;
	size_t used = 0;
	ssize_t n;

	if (!entries || !max || flags || size < sizeof(entries->gid))
		return -EINVAL;
	all = calloc(table_len(device), sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = vb_gid_table(device, all, table_len(device));
	for (ssize_t i = 0; i < n; i++)
		if (!vb_gid_is_free(&all[i].gid))
			all[used++] = all[i];
	if (n >= 0 || n == -ENODEV)
		n = used > max ? -EINVAL : (ssize_t)used;
	for (ssize_t i = 0; i < n; i++) {
		char *out = (char *)entries + i * size;

		memset(out, 0, size);
		memcpy(out, &all[i], size < sizeof(all[i]) ? size : sizeof(all[i]));
	}
	free(all);
	return n;
}

/* Its numbers differ from those of enum ibv_gid_type. */
VB_EXPORT VB_RETURNS_COUNT(int, private_ibv_query_gid_type,
	(struct ibv_context *ctx, uint8_t port, unsigned index, enum vb_gid_type_sysfs *type),
	(ctx, port, index, type))
{
	struct ibv_gid_entry entry;
	int err = type ? find(ctx, port, index, &entry) : EINVAL;

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*type = err || entry.gid_type != IBV_GID_TYPE_ROCE_V2 ? VB_GID_TYPE_SYSFS_IB_ROCE_V1
							       : VB_GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}
VB_PRIVATE_NODES(ibv_query_gid_type);
