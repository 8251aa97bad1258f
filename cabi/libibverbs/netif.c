/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists network interfaces and addresses with two netlink dumps. The net package of Go does so,
 * too, and both see the same in the same order. getifaddrs(3) would name an IPv4 address by its
 * label instead of its interface.
 *
 * Spec: rtnetlink(7)
 */
#define _GNU_SOURCE
#include "netif.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Prints, once per process, that the kernel refused a socket that needs no privilege. Then no
 * program finds a device, and errno alone does not explain that.
 */
static void tell_forbidden(int err)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if ((err == EPERM || err == EACCES || err == ENOSYS) && !atomic_flag_test_and_set(&told))
		fprintf(stderr,
			"verbena: socket(2) is refused for AF_NETLINK (%s): a seccomp filter, of a "
			"container or a sandbox, "
			"must allow it, for AF_UNIX and AF_INET too\n",
			strerror(err));
}

/* The kernel fills up to 32 KiB per read if the buffer has them. */
#define DUMP_BYTES 32768

/* How often a dump is repeated when the kernel reports that a change interrupted it. */
#define DUMP_TRIES 8

static void *append(void **list, size_t *count, size_t size)
{
	/* The array grows when its count reaches a power of two. */
	if ((*count & (*count - 1)) == 0) {
		void *more = realloc(*list, (*count ? 2 * *count : 1) * size);

		if (!more)
			return NULL;
		*list = more;
	}
	return memset((char *)*list + (*count)++ * size, 0, size);
}

static struct vb_netif *find(struct vb_netifs *all, unsigned index)
{
	for (size_t i = 0; i < all->if_count; i++)
		if (all->ifs[i].index == index)
			return &all->ifs[i];
	return NULL;
}

static int add_link(struct vb_netifs *all, struct nlmsghdr *h)
{
	struct ifinfomsg *info = NLMSG_DATA(h);
	int left = IFLA_PAYLOAD(h);
	void *list = all->ifs;
	struct vb_netif *netif = append(&list, &all->if_count, sizeof(*netif));

	if (!netif)
		return ENOMEM;
	all->ifs = list;
	netif->index = info->ifi_index;
	netif->flags = info->ifi_flags;
	for (struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		size_t n = RTA_PAYLOAD(a);

		switch (a->rta_type) {
		case IFLA_IFNAME:
			memcpy(netif->name, RTA_DATA(a), n < sizeof(netif->name) ? n : sizeof(netif->name) - 1);
			break;
		case IFLA_MTU:
			if (n >= 4)
				memcpy(&netif->mtu, RTA_DATA(a), 4);
			break;
		case IFLA_ADDRESS:
			if (n == sizeof(netif->mac)) {
				memcpy(netif->mac, RTA_DATA(a), n);
				netif->has_mac = memcmp(netif->mac, (uint8_t[6]){ 0 }, n) != 0;
			}
			break;
		}
	}
	return 0;
}

/*
 * On a point-to-point interface IFA_ADDRESS is that of the peer and IFA_LOCAL ours. IPv6 without a
 * peer has only IFA_ADDRESS.
 */
static int add_addr(struct vb_netifs *all, struct nlmsghdr *h)
{
	struct ifaddrmsg *info = NLMSG_DATA(h);
	struct vb_netif *netif = find(all, info->ifa_index);
	size_t size = info->ifa_family == AF_INET ? 4 : info->ifa_family == AF_INET6 ? 16 : 0;
	int left = IFA_PAYLOAD(h);
	const void *local = NULL, *address = NULL;
	struct vb_netaddr *addr;
	void *list = all->addrs;

	for (struct rtattr *a = IFA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (RTA_PAYLOAD(a) != size)
			continue;
		if (a->rta_type == IFA_LOCAL)
			local = RTA_DATA(a);
		else if (a->rta_type == IFA_ADDRESS)
			address = RTA_DATA(a);
	}
	if (!local)
		local = address;
	if (!size || !local)
		return 0;
	addr = append(&list, &all->addr_count, sizeof(*addr));
	if (!addr)
		return ENOMEM;
	all->addrs = list;
	addr->index = info->ifa_index;
	if (size == 4)
		memcpy(addr->addr.s6_addr + 10, "\xff\xff", 2);
	memcpy(addr->addr.s6_addr + 16 - size, local, size);
	if (netif)
		netif->addr_count++;
	return 0;
}

/* Reads one dump: 0 or an errno, EINTR if the list of the kernel changed meanwhile. */
static int dump(int fd, unsigned seq, uint16_t type, unsigned index, char *buf,
		int (*add)(struct vb_netifs *, struct nlmsghdr *), struct vb_netifs *all)
{
	struct {
		struct nlmsghdr h;
		union {
			struct ifinfomsg link;
			struct ifaddrmsg addr;
		};
	} ask = {
		.h = {
			.nlmsg_len = NLMSG_LENGTH(type == RTM_GETLINK ? sizeof(ask.link) : sizeof(ask.addr)),
			.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = seq,
		},
	};
	int interrupted = 0;

	if (type == RTM_GETADDR)
		ask.addr.ifa_index = index; /* all interfaces if 0, or if the kernel does not filter */
	if (send(fd, &ask, ask.h.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		ssize_t n = recv(fd, buf, DUMP_BYTES, MSG_TRUNC);
		unsigned left = n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0 || n > DUMP_BYTES)
			return EMSGSIZE;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			int err = 0;

			if (h->nlmsg_seq != seq)
				continue; /* left of an abandoned dump */
			if (h->nlmsg_flags & NLM_F_DUMP_INTR)
				interrupted = 1;
			if (h->nlmsg_type == NLMSG_DONE)
				return interrupted ? EINTR : 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return -((struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (h->nlmsg_type == (type == RTM_GETLINK ? RTM_NEWLINK : RTM_NEWADDR))
				err = add(all, h);
			if (err)
				return err;
		}
	}
}

/* Reads the interfaces, and the addresses of one or of all: 0 or an errno. */
static int read_dumps(struct vb_netifs *all, unsigned index)
{
	char *buf = malloc(DUMP_BYTES);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), on = 1;
	int err = !buf ? ENOMEM : fd < 0 ? errno : EINTR;

	memset(all, 0, sizeof(*all));
	if (fd < 0)
		tell_forbidden(err);
	/* Without this option, or before Linux 4.20, the list is not filtered. */
	if (index && fd >= 0)
		setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	for (unsigned try = 0; err == EINTR && try < DUMP_TRIES; try++) {
		vb_netifs_free(all);
		err = index ? 0 : dump(fd, 2 * try + 1, RTM_GETLINK, 0, buf, add_link, all);
		if (!err)
			err = dump(fd, 2 * try + 2, RTM_GETADDR, index, buf, add_addr, all);
	}
	if (fd >= 0)
		close(fd);
	free(buf);
	if (err)
		vb_netifs_free(all);
	return err;
}

int vb_netifs_read(struct vb_netifs *all)
{
	return read_dumps(all, 0);
}

int vb_netif_addrs(const char *name, struct vb_netifs *one)
{
	unsigned index = if_nametoindex(name);
	int err = index ? read_dumps(one, index) : errno;
	size_t kept = 0;

	if (err)
		return err;
	for (size_t i = 0; i < one->addr_count; i++)
		if (one->addrs[i].index == index)
			one->addrs[kept++] = one->addrs[i];
	one->addr_count = kept;
	return 0;
}

void vb_netifs_free(struct vb_netifs *all)
{
	free(all->ifs);
	free(all->addrs);
	memset(all, 0, sizeof(*all));
}

int vb_netif_state(const char *name, unsigned *flags, unsigned *mtu)
{
	struct ifreq req = { 0 };
	int err = 0, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFFLAGS, &req))
		err = errno;
	else {
		*flags = (unsigned short)req.ifr_flags;
		err = ioctl(fd, SIOCGIFMTU, &req) ? errno : 0;
		*mtu = req.ifr_mtu;
	}
	close(fd);
	return err;
}
