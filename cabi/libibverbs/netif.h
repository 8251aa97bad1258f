/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Network interfaces and their addresses, as the kernel lists them (netif.c).
 */
#ifndef VERBENA_NETIF_H
#define VERBENA_NETIF_H

#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct vb_netif {
	char name[IF_NAMESIZE];
	unsigned index, flags, mtu;
	uint8_t mac[6];
	int has_mac;
	unsigned addr_count; /* counts addresses of all kinds, multicast included */
};

/* An address; IPv4 ones in the IPv4-mapped form. */
struct vb_netaddr {
	unsigned index; /* index of its interface */
	struct in6_addr addr;
};

struct vb_netifs {
	struct vb_netif *ifs;
	size_t if_count;
	struct vb_netaddr *addrs;
	size_t addr_count;
};

/* Reads all interfaces and addresses: 0 or an errno. The caller frees them. */
int vb_netifs_read(struct vb_netifs *all);
void vb_netifs_free(struct vb_netifs *all);

/* Reads the addresses of the interface with a name: 0 or an errno. vb_netifs_free frees them. */
int vb_netif_addrs(const char *name, struct vb_netifs *one);

/* Reads flags and MTU of an interface: 0 or an errno. */
int vb_netif_state(const char *name, unsigned *flags, unsigned *mtu);

#endif
