/*
 * The device list: one device for each network interface that has an address,
 * loopback last, as internal/device lists them.
 *
 * A device keeps its structure while its interface keeps name, number and MAC
 * address: applications compare and keep the pointers. The structure of a
 * device that is gone lives until the last list and context that has it is.
 */
#define _GNU_SOURCE
#include "front.h"
#include "fork.h"
#include "netif.h"
#include "sha256.h"
#include "sysfs.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_device *known; /* guarded by lock; holds a reference to each */

/* Another pointer than any provider's table of operations has. */
static const char not_a_providers;

void vb_devices_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void vb_devices_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * The EUI-64 of a MAC address, or, where there is none, a name of this host and
 * interface in the locally administered space, as internal/device makes it.
 *
 * Spec: RFC 4291, appendix A
 */
static uint64_t guid_of(const struct vb_netif *netif)
{
	const uint8_t *m = netif->mac;
	struct utsname host = { 0 };
	char name[sizeof(host.nodename) + 1 + IF_NAMESIZE];
	uint8_t sum[32];
	uint64_t guid;
	size_t n;

	if (netif->has_mac)
		return (uint64_t)(m[0] ^ 2) << 56 | (uint64_t)m[1] << 48 | (uint64_t)m[2] << 40 | 0xfffe000000 | m[3] << 16 | m[4] << 8 | m[5];
	uname(&host);
	n = strlen(host.nodename) + 1;
	memcpy(name, host.nodename, n);
	memcpy(name + n, netif->name, strlen(netif->name));
	vb_sha256(name, n + strlen(netif->name), sum);
	memcpy(&guid, sum, sizeof(guid));
	return (be64toh(guid) & ~(3ULL << 56)) | 2ULL << 56;
}

static struct vb_device *make(const struct vb_netif *netif, uint64_t guid)
{
	struct vb_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ibv.node_type = IBV_NODE_CA;
	d->ibv.transport_type = IBV_TRANSPORT_IB;
	d->ops = &not_a_providers;
	d->ifindex = netif->index;
	d->guid = guid;
	d->refs = 1;
	memcpy(d->netdev, netif->name, sizeof(d->netdev));
	snprintf(d->ibv.name, sizeof(d->ibv.name), "roce_%s", netif->name);
	/* The number of an interface is stable, that of its place in the list is not. */
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs%u", netif->index);
	vb_sysfs_path(d->ibv.dev_path, sizeof(d->ibv.dev_path), "class/infiniband_verbs", d->ibv.dev_name);
	vb_sysfs_path(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "class/infiniband", d->ibv.name);
	return d;
}

/* The lock is held. */
static void put(struct vb_device *d)
{
	if (--d->refs == 0)
		free(d);
}

void vb_device_get(struct vb_device *d)
{
	pthread_mutex_lock(&lock);
	d->refs++;
	pthread_mutex_unlock(&lock);
}

void vb_device_put(struct vb_device *d)
{
	pthread_mutex_lock(&lock);
	put(d);
	pthread_mutex_unlock(&lock);
}

/* Takes the interface's device out of a list of devices, or makes one. */
static struct vb_device *take(struct vb_device **list, const struct vb_netif *netif)
{
	uint64_t guid = guid_of(netif);

	for (struct vb_device **at = list, *d; (d = *at); at = &d->next)
		if (d->ifindex == netif->index && d->guid == guid && strcmp(d->netdev, netif->name) == 0) {
			*at = d->next;
			d->next = NULL;
			return d;
		}
	return make(netif, guid);
}

/*
 * Brings the known devices up to date with the interfaces; returns how many
 * there are or a negative errno, and then knows what it knew. The lock is held.
 */
static int refresh(void)
{
	struct vb_device *old = known, *d, **tail = &known;
	struct vb_netifs all;
	int err = vb_netifs_read(&all), count = 0;

	if (err)
		return -err;
	known = NULL;
	for (int loopback = 0; !err && loopback <= 1; loopback++)
		for (size_t i = 0; i < all.if_count; i++) {
			const struct vb_netif *netif = &all.ifs[i];

			if (netif->addr_count == 0 || !!(netif->flags & IFF_LOOPBACK) != loopback)
				continue;
			d = take(&old, netif);
			if (!d) {
				err = ENOMEM;
				break;
			}
			*tail = d;
			tail = &d->next;
			count++;
		}
	if (err)
		*tail = old; /* all of before are known still */
	else
		while ((d = old)) {
			old = d->next;
			put(d);
		}
	vb_netifs_free(&all);
	return err ? -err : count;
}

/* ibv_get_device_list(3) */
VB_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = NULL;
	int count, i = 0;

	if (num_devices)
		*num_devices = 0;
	pthread_mutex_lock(&lock);
	count = refresh();
	if (count >= 0)
		list = calloc(count + 1, sizeof(*list));
	if (list)
		for (struct vb_device *d = known; d; d = d->next) {
			d->refs++;
			list[i++] = &d->ibv;
		}
	pthread_mutex_unlock(&lock);
	if (!list)
		errno = count < 0 ? -count : ENOMEM;
	else if (num_devices)
		*num_devices = count;
	return list;
}

VB_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	if (!list)
		return;
	pthread_mutex_lock(&lock);
	for (int i = 0; list[i]; i++)
		put(vb_device_of(list[i]));
	pthread_mutex_unlock(&lock);
	free(list);
}

/* ibv_get_device_name(3) */
VB_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* ibv_get_device_guid(3): in network byte order. */
VB_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(vb_device_of(device)->guid);
}

/* ibv_get_device_index(3): the interface's, which is stable as the man page wants it. */
VB_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return vb_device_of(device)->ifindex;
}
