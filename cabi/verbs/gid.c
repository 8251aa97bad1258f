/*
 * GID tables: ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3). A
 * table is the addresses of the device's interface, read anew at each look, in
 * the order of internal/device: IPv6 link-local ones first, as the kernel's
 * default GIDs are.
 */
#define _GNU_SOURCE
#include "front.h"
#include "private.h"
#include "gid.h"
#include "device_limits.h"
#include "netif.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the macro ibv_query_gid_ex passes on has the size of this one at least. */
_Static_assert(sizeof(struct ibv_gid_entry) == 32, "as the kernel has it");

static int table_len(void)
{
	return vb_port_limits.gid_tbl_len;
}

static int is_multicast(const struct in6_addr *a)
{
	return IN6_IS_ADDR_MULTICAST(a) || (IN6_IS_ADDR_V4MAPPED(a) && (a->s6_addr[12] & 0xf0) == 0xe0);
}

int vb_gid_table(const struct vb_device *device, struct ibv_gid_entry *entries, int max)
{
	struct vb_netifs one;
	int n = 0, err = vb_netif_addrs(device->netdev, &one);

	if (err)
		return -err;
	for (int link_local = 1; link_local >= 0; link_local--)
		for (size_t i = 0; i < one.addr_count; i++) {
			const struct in6_addr *a = &one.addrs[i].addr;

			if (n == table_len() || is_multicast(a) || !!IN6_IS_ADDR_LINKLOCAL(a) != link_local)
				continue;
			if (n < max) {
				memset(&entries[n], 0, sizeof(entries[n]));
				memcpy(entries[n].gid.raw, a, sizeof(*a));
				entries[n].gid_index = n;
				entries[n].port_num = 1;
				entries[n].gid_type = IBV_GID_TYPE_ROCE_V2;
				entries[n].ndev_ifindex = one.addrs[i].index;
			}
			n++;
		}
	vb_netifs_free(&one);
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
	if (port != 1 || index >= (uint32_t)table_len())
		return EINVAL;
	all = calloc(index + 1, sizeof(*all));
	if (!all)
		return ENOMEM;
	n = vb_gid_table(vb_context_of(ctx)->device, all, index + 1);
	if (n > (int)index)
		*entry = all[index];
	else
		err = n < 0 && n != -ENODEV ? -n : ENODATA;
	free(all);
	return err;
}

/* An index that is free, but within the table, has the GID ::. */
VB_EXPORT int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
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

VB_EXPORT int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size)
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

VB_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	struct ibv_gid_entry *all;
	int n;

	if (!entries || !max || flags || size < sizeof(entries->gid))
		return -EINVAL;
	all = calloc(table_len(), sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = vb_gid_table(vb_context_of(ctx)->device, all, table_len());
	if (n == -ENODEV)
		n = 0;
	if (n > 0 && (size_t)n > max)
		n = -EINVAL;
	for (int i = 0; i < n; i++) {
		char *out = (char *)entries + i * size;

		memset(out, 0, size);
		memcpy(out, &all[i], size < sizeof(all[i]) ? size : sizeof(all[i]));
	}
	free(all);
	return n;
}

/* Its numbers are not those of enum ibv_gid_type. */
VB_EXPORT int private_ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned index, enum vb_gid_type_sysfs *type)
{
	struct ibv_gid_entry entry;
	int err = type ? find(ctx, port, index, &entry) : EINVAL;

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*type = err ? VB_GID_TYPE_SYSFS_IB_ROCE_V1 : VB_GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}
VB_PRIVATE_NODES(ibv_query_gid_type);
