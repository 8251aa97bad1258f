/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index of each address in the GID table of its interface. An address keeps its index while it
 * exists, because applications name it by that. A new address takes the lowest free index. Each
 * call reads the addresses anew, unless the kernel has reported no change.
 *
 * The rules are those of internal/device. The engine takes its indices from here: two tables, read
 * at different times, could differ.
 */
#include "front.h"
#include "fork.h"
#include "gid.h"
#include "device_limits.h"
#include "netif.h"
#include "netwatch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct table {
	struct table *next;
	char netdev[IF_NAMESIZE];
	uint64_t read_at; /* the generation of addrs */
	int used; /* number of the last entry in use plus one */
	struct in6_addr addrs[]; /* :: where an entry is free */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *tables; /* guarded by lock */
static uint64_t generation;  /* guarded by lock: generation of the list of the kernel */

void vb_gids_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void vb_gids_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

void vb_gids_after_fork_in_child(void)
{
	vb_net_after_fork_in_child();
	pthread_mutex_unlock(&lock);
}

static int is_multicast(const struct in6_addr *a)
{
	return IN6_IS_ADDR_MULTICAST(a) || (IN6_IS_ADDR_V4MAPPED(a) && (a->s6_addr[12] & 0xf0) == 0xe0);
}

static int is_free(const struct table *t, int i)
{
	return IN6_IS_ADDR_UNSPECIFIED(&t->addrs[i]);
}

static int has(const struct table *t, const struct in6_addr *a)
{
	for (int i = 0; i < t->used; i++)
		if (IN6_ARE_ADDR_EQUAL(&t->addrs[i], a))
			return 1;
	return 0;
}

static int listed(const struct vb_netifs *now, const struct in6_addr *a)
{
	for (size_t i = 0; i < now->addr_count; i++)
		if (IN6_ARE_ADDR_EQUAL(&now->addrs[i].addr, a))
			return 1;
	return 0;
}

/* Puts an address into the lowest free entry. A full table leaves it out. */
static void put(struct table *t, const struct in6_addr *a)
{
	for (int i = 0; i < VB_GIDS; i++)
		if (i >= t->used || is_free(t, i)) {
			t->addrs[i] = *a;
			if (i >= t->used)
				t->used = i + 1;
			return;
		}
}

/* IPv6 link-local addresses come first, as in the kernel's tables. */
static void update(struct table *t, const struct vb_netifs *now)
{
	for (int i = 0; i < t->used; i++)
		if (!listed(now, &t->addrs[i]))
			memset(&t->addrs[i], 0, sizeof(t->addrs[i]));
	for (int link_local = 1; link_local >= 0; link_local--)
		for (size_t i = 0; i < now->addr_count; i++) {
			const struct in6_addr *a = &now->addrs[i].addr;

			if (!!IN6_IS_ADDR_LINKLOCAL(a) == link_local && !is_multicast(a) && !has(t, a))
				put(t, a);
		}
	while (t->used && is_free(t, t->used - 1))
		t->used--;
}

/* Returns the table of an interface. The caller holds lock. */
static struct table *find(const char *netdev)
{
	struct table *t = tables;

	while (t && strcmp(t->netdev, netdev) != 0)
		t = t->next;
	return t;
}

/*
 * Returns the table of an interface, made if there is none. Then tables of removed interfaces are
 * freed. The caller holds lock.
 */
static struct table *table_of(const char *netdev)
{
	struct table **at = &tables, *t = find(netdev);

	if (t)
		return t;
	while ((t = *at)) {
		if (if_nametoindex(t->netdev)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
	t = calloc(1, sizeof(*t) + VB_GIDS * sizeof(*t->addrs));
	if (!t)
		return NULL;
	strncpy(t->netdev, netdev, sizeof(t->netdev) - 1);
	t->next = tables;
	tables = t;
	return t;
}

/* Reads the addresses of an interface into its table: 0 or an errno. The caller holds lock. */
static int look(const char *netdev, struct table **out)
{
	struct vb_netifs now;
	int err = vb_netif_addrs(netdev, &now);

	if (err)
		return err;
	*out = table_of(netdev);
	if (*out) {
		update(*out, &now);
		(*out)->read_at = generation;
	}
	vb_netifs_free(&now);
	return *out ? 0 : ENOMEM;
}

int vb_gid_addrs(const char *netdev, union ibv_gid *gids, int max)
{
	struct table *t;
	int n = 0;

	/* Read with the lock held, so that an older list does not overwrite a newer one. */
	pthread_mutex_lock(&lock);
	if (!vb_net_unchanged())
		generation++;
	t = find(netdev);
	if (!t || t->read_at != generation)
		n = -look(netdev, &t);
	if (!n) {
		n = t->used;
		memcpy(gids, t->addrs, (n < max ? n : max) * sizeof(*gids));
	}
	pthread_mutex_unlock(&lock);
	return n;
}
