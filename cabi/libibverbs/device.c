/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device list, the same as that of internal/device. For each kind there is a device per network
 * interface with an address, loopback last; for ntb there is one per NTB link. VERBENA_DEVICES
 * selects devices by kinds and names, separated by commas. Without it the list has those of RoCEv2.
 *
 * A device keeps its structure while its interface keeps name, number and MAC address: applications
 * compare and keep the pointers. The structure of a removed device lives until the last list and
 * context that use it are freed.
 */
#define _GNU_SOURCE
#include "front.h"
#include "device_limits.h"
#include "fork.h"
#include "links.h"
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
static struct vb_device *known; /* guarded by lock; a reference to each */

/* Differs from the table of operations of any provider. */
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
 * Returns the EUI-64 of a MAC address, or without one an identifier made of the names of host and
 * interface, in the locally administered space. internal/device makes the same.
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
		return (uint64_t)(m[0] ^ 2) << 56 | (uint64_t)m[1] << 48 | (uint64_t)m[2] << 40 |
		       0xfffe000000 | m[3] << 16 | m[4] << 8 | m[5];
	uname(&host);
	n = strlen(host.nodename) + 1;
	memcpy(name, host.nodename, n);
	memcpy(name + n, netif->name, strlen(netif->name));
	vb_sha256(name, n + strlen(netif->name), sum);
	memcpy(&guid, sum, sizeof(guid));
	return (be64toh(guid) & ~(3ULL << 56)) | 2ULL << 56;
}

/* Writes the name of the device of a kind on an interface: longer than both. */
static void name_of(char *name, const struct vb_kind *kind, const struct vb_netif *netif)
{
	if (kind->links)
		snprintf(name, IBV_SYSFS_NAME_MAX, "%s%u", kind->name, netif->index);
	else
		snprintf(name, IBV_SYSFS_NAME_MAX, "%s_%s", kind->name, netif->name);
}

static struct vb_device *make(const struct vb_kind *kind, const struct vb_netif *netif,
			      uint64_t guid)
{
	struct vb_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ibv.node_type = kind->node_type;
	d->ibv.transport_type = kind->transport;
	d->kind = kind;
	d->ops = &not_a_providers;
	d->ifindex = netif->index;
	d->number = (unsigned)(kind - vb_kinds) << 16 | netif->index;
	d->guid = guid;
	d->refs = 1;
	memcpy(d->netdev, netif->name, sizeof(d->netdev));
	name_of(d->ibv.name, kind, netif);
	/*
	 * Finds a device by the number of its interface, which is stable; its place in the list is not.
	 */
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs%u", d->number);
	vb_sysfs_path(d->ibv.dev_path, sizeof(d->ibv.dev_path), "class/infiniband_verbs",
		      d->ibv.dev_name);
	vb_sysfs_path(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "class/infiniband", d->ibv.name);
	return d;
}

/* The caller holds lock. */
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

/* Returns the device of a kind on an interface: that of the old list, or a new one. */
static struct vb_device *take(struct vb_device **list, const struct vb_kind *kind,
			      const struct vb_netif *netif, uint64_t guid)
{
	for (struct vb_device **at = list, *d; (d = *at); at = &d->next)
		if (d->kind == kind && d->ifindex == netif->index && d->guid == guid &&
		    strcmp(d->netdev, netif->name) == 0) {
			*at = d->next;
			d->next = NULL;
			return d;
		}
	return make(kind, netif, guid);
}

/* -- which there are -------------------------------------------------------------- */

/* A device list in the making. */
struct listing {
	const struct vb_netifs *all;
	const struct vb_link *links;
	int link_count;
	struct vb_device *old, **tail;
	int count;
};

/* Returns whether an earlier word has listed a device. */
static int is_known(const char *name)
{
	for (struct vb_device *d = known; d; d = d->next)
		if (strcmp(d->ibv.name, name) == 0)
			return 1;
	return 0;
}

/*
 * Lists the device of a kind on an interface if a word selects it: 0 or an errno. An NTB link
 * counts as an interface that has a number and no name.
 */
static int list_one(struct listing *l, const struct vb_kind *kind, const struct vb_netif *netif,
		    const char *word, uint64_t guid)
{
	char name[IBV_SYSFS_NAME_MAX];
	struct vb_device *d;

	name_of(name, kind, netif);
	if ((strcmp(word, kind->name) != 0 && strcmp(word, name) != 0) || is_known(name))
		return 0;
	d = take(&l->old, kind, netif, guid);
	if (!d)
		return ENOMEM;
	*l->tail = d;
	l->tail = &d->next;
	l->count++;
	return 0;
}

/* Lists the devices of NTB links that a word selects: 0 or an errno. */
static int list_links(struct listing *l, const struct vb_kind *kind, const char *word)
{
	int err = 0;

	for (int i = 0; !err && i < l->link_count; i++) {
		struct vb_netif netif = { .index = i };

		err = list_one(l, kind, &netif, word, l->links[i].guid);
	}
	return err;
}

/* Lists the devices that a word selects: 0 or an errno. */
static int list_word(struct listing *l, const char *word)
{
	int err = 0;

	for (unsigned k = 0; k < VB_KINDS; k++) {
		if (vb_kinds[k].links) {
			err = err ? err : list_links(l, &vb_kinds[k], word);
			continue;
		}
		for (int loopback = 0; loopback <= 1; loopback++)
			for (size_t i = 0; !err && i < l->all->if_count; i++) {
				const struct vb_netif *netif = &l->all->ifs[i];

				if (netif->addr_count && !!(netif->flags & IFF_LOOPBACK) == loopback)
					err = list_one(l, &vb_kinds[k], netif, word, guid_of(netif));
			}
	}
	return err;
}

/* Returns the words that select devices. */
static const char *selection(void)
{
	const char *env = secure_getenv("VERBENA_DEVICES");

	return env && env[strspn(env, ",")] ? env : vb_kinds[0].name;
}

/* Returns whether a word selects NTB links, by their kind or by a name. */
static int wants_links(void)
{
	for (unsigned k = 0; k < VB_KINDS; k++) {
		size_t n = strlen(vb_kinds[k].name);

		if (!vb_kinds[k].links)
			continue;
		for (const char *word = selection(); *word; word += strcspn(word, ",")) {
			word += strspn(word, ",");
			if (strncmp(word, vb_kinds[k].name, n) == 0)
				return 1;
		}
	}
	return 0;
}

/* Lists the devices that the environment selects: 0 or an errno. */
static int list_selected(struct listing *l)
{
	char *words, *word, *rest;
	int err = 0;

	words = strdup(selection());
	if (!words)
		return ENOMEM;
	for (word = strtok_r(words, ",", &rest); word && !err; word = strtok_r(NULL, ",", &rest))
		err = list_word(l, word);
	free(words);
	return err;
}

/*
 * Brings the known devices up to date with the interfaces. Returns their number, or a negative
 * errno and leaves them as they were. The caller holds lock.
 */
static int refresh(const struct vb_link *links, int link_count)
{
	struct vb_netifs all;
	struct listing l = {
		.all = &all, .links = links, .link_count = link_count, .old = known, .tail = &known
	};
	struct vb_device *d;
	int err = vb_netifs_read(&all);

	if (err)
		return -err;
	known = NULL;
	err = list_selected(&l);
	if (err)
		*l.tail = l.old; /* the old list stays */
	else
		while ((d = l.old)) {
			l.old = d->next;
			put(d);
		}
	vb_netifs_free(&all);
	return err ? -err : l.count;
}

/* ibv_get_device_list(3) */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_device **, ibv_get_device_list, (int *num_devices),
			     (num_devices))
{
	struct ibv_device **list = NULL;
	struct vb_link *links = NULL;
	int count = wants_links() ? vb_links_read(&links) : 0, i = 0;

	if (num_devices)
		*num_devices = 0;
	if (count < 0) {
		errno = -count;
		return NULL;
	}
	pthread_mutex_lock(&lock);
	count = refresh(links, count);
	if (count >= 0)
		list = calloc(count + 1, sizeof(*list));
	if (list)
		for (struct vb_device *d = known; d; d = d->next) {
			d->refs++;
			list[i++] = &d->ibv;
		}
	pthread_mutex_unlock(&lock);
	free(links);
	if (!list)
		errno = count < 0 ? -count : ENOMEM;
	else if (num_devices)
		*num_devices = count;
	return list;
}

VB_EXPORT VB_RETURNS_NOTHING(ibv_free_device_list, (struct ibv_device **list), (list))
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

/* ibv_get_device_index(3): stable while the interface is, as the man page demands. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_get_device_index, (struct ibv_device *device), (device))
{
	return vb_device_of(device)->number;
}
