/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_resolve_eth_l2_from_gid: the Ethernet address for packets to a GID, and their VLAN, from the
 * routes and neighbours of the kernel. Programs that build frames call it; the kernel makes those
 * of the engine.
 *
 * Spec: rtnetlink(7), RFC 1112 6.4, RFC 2464 7
 */
#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <linux/if_vlan.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The time that a neighbour has to answer, as with rdma-core, and the time between checks. */
#define WAIT_MS 3000
#define LOOK_MS 10

#define DISCARD_PORT 9 /* RFC 863 */
#define NO_VLAN 0xffff

struct host {
	int family;
	size_t size;
	const uint8_t *addr;
};

struct request {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neigh;
	};
	struct rtattr a;
	uint8_t addr[16];
};

static struct host host_of(const union ibv_gid *gid)
{
	/* The GID of an IPv4 group is ff0e::ffff:a.b.c.d. */
	static const uint8_t group[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw) ||
	    memcmp(gid->raw, group, sizeof(group)) == 0)
		return (struct host){ AF_INET, 4, gid->raw + 12 };
	return (struct host){ AF_INET6, 16, gid->raw };
}

/* Sends a request to the kernel and copies one attribute of its answer: 0 or an errno. */
static int ask(struct request *req, size_t head, const struct host *host, char *buf, size_t size,
	       struct nlmsghdr **answer)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err = 0;
	ssize_t n;

	if (fd < 0)
		return errno;
	/* Appends the attribute to the head of the request. */
	char *at = (char *)NLMSG_DATA(&req->h) + NLMSG_ALIGN(head);
	struct rtattr a = { .rta_len = RTA_LENGTH(host->size), .rta_type = req->a.rta_type };

	memcpy(at, &a, sizeof(a));
	memcpy(at + RTA_LENGTH(0), host->addr, host->size);
	req->h.nlmsg_len = NLMSG_LENGTH(NLMSG_ALIGN(head) + a.rta_len);
	req->h.nlmsg_flags = NLM_F_REQUEST;
	if (send(fd, req, req->h.nlmsg_len, 0) < 0)
		err = errno;
	while (!err && (n = recv(fd, buf, size, 0)) < 0)
		if (errno != EINTR)
			err = errno;
	close(fd);
	if (err)
		return err;
	*answer = (struct nlmsghdr *)buf;
	if (!NLMSG_OK(*answer, (unsigned)n))
		return EPROTO;
	if ((*answer)->nlmsg_type == NLMSG_ERROR)
		return -((struct nlmsgerr *)NLMSG_DATA(*answer))->error;
	return 0;
}

static const void *attribute(struct nlmsghdr *h, size_t head, int type, size_t size)
{
	struct rtattr *a = (struct rtattr *)((char *)NLMSG_DATA(h) + NLMSG_ALIGN(head));
	int left = NLMSG_PAYLOAD(h, head);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type && RTA_PAYLOAD(a) >= size)
			return RTA_DATA(a);
	return NULL;
}

/* Finds the next hop, which is the host itself or a gateway. *local: it is this machine. */
static int next_hop(const struct host *to, uint8_t hop[16], int *local)
{
	char buf[8192];
	struct nlmsghdr *h;
	struct request req = { .h.nlmsg_type = RTM_GETROUTE,
			       .route.rtm_family = to->family,
			       .route.rtm_dst_len = to->size * 8 };
	const void *gateway;
	struct rtmsg *route;
	int err;

	req.a.rta_type = RTA_DST;
	err = ask(&req, sizeof(req.route), to, buf, sizeof(buf), &h);
	if (err)
		return err;
	route = NLMSG_DATA(h);
	*local = route->rtm_type == RTN_LOCAL;
	if (!*local && route->rtm_type != RTN_UNICAST)
		return EHOSTUNREACH;
	gateway = attribute(h, sizeof(*route), RTA_GATEWAY, to->size);
	memcpy(hop, gateway ? gateway : to->addr, to->size);
	return 0;
}

static int neighbour(const struct host *hop, unsigned ifindex, uint8_t mac[6])
{
	char buf[8192];
	struct nlmsghdr *h;
	struct request req = { .h.nlmsg_type = RTM_GETNEIGH,
			       .neigh.ndm_family = hop->family,
			       .neigh.ndm_ifindex = ifindex };
	const void *found;
	int err;

	req.a.rta_type = NDA_DST;
	err = ask(&req, sizeof(req.neigh), hop, buf, sizeof(buf), &h);
	if (err)
		return err;
	found = attribute(h, sizeof(req.neigh), NDA_LLADDR, 6);
	if (!found || (((struct ndmsg *)NLMSG_DATA(h))->ndm_state & (NUD_INCOMPLETE | NUD_FAILED)))
		return EAGAIN;
	memcpy(mac, found, 6);
	return 0;
}

/* Makes the kernel resolve a neighbour, by a datagram to its discard port. */
static void provoke(const struct host *to, unsigned ifindex)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD_PORT),
				    .sin6_scope_id = ifindex };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(DISCARD_PORT) };
	int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return; /* then the wait ends with EHOSTUNREACH */
	if (to->family == AF_INET) {
		memcpy(&four.sin_addr, to->addr, 4);
		sendto(fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&four, sizeof(four));
	} else {
		memcpy(&six.sin6_addr, to->addr, 16);
		sendto(fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&six, sizeof(six));
	}
	close(fd);
}

/* Reads the address and the VLAN of the interface. */
static int own(const char *netdev, uint8_t mac[6], uint16_t *vlan)
{
	struct ifreq req = { 0 };
	struct vlan_ioctl_args args = { .cmd = GET_VLAN_VID_CMD };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return errno;
	memcpy(req.ifr_name, netdev, strnlen(netdev, IFNAMSIZ - 1));
	memcpy(args.device1, netdev, strnlen(netdev, IFNAMSIZ));
	if (ioctl(fd, SIOCGIFHWADDR, &req))
		err = errno;
	else
		memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	*vlan = ioctl(fd, SIOCGIFVLAN, &args) ? NO_VLAN : args.u.VID;
	close(fd);
	return err;
}

static int multicast_mac(const struct host *to, uint8_t mac[6])
{
	if (to->family == AF_INET && (to->addr[0] & 0xf0) == 0xe0) {
		memcpy(mac,
		       (uint8_t[]){ 0x01, 0x00, 0x5e, to->addr[1] & 0x7f, to->addr[2],
				    to->addr[3] },
		       6);
		return 1;
	}
	if (to->family == AF_INET6 && to->addr[0] == 0xff) {
		memcpy(mac,
		       (uint8_t[]){ 0x33, 0x33, to->addr[12], to->addr[13], to->addr[14],
				    to->addr[15] },
		       6);
		return 1;
	}
	return 0;
}

/* Returns 0 or a negative errno: -EHOSTUNREACH if no neighbour answers. */
VB_EXPORT VB_RETURNS_NEGATIVE_ERRNO(int, ibv_resolve_eth_l2_from_gid,
				    (struct ibv_context *ctx, struct ibv_ah_attr *attr,
				     uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid),
				    (ctx, attr, mac, vid))
{
	const struct vb_device *device = vb_context_of(ctx)->device;
	struct host to = host_of(&attr->grh.dgid), hop = to;
	uint8_t hop_addr[16], mine[6];
	int local, err;
	uint16_t vlan = NO_VLAN;
	union ibv_gid sgid;

	if (ibv_query_gid(ctx, attr->port_num, attr->grh.sgid_index, &sgid))
		return -errno;
	err = own(device->netdev, mine, &vlan);
	if (err)
		return -err;
	if (vid)
		*vid = vlan;
	if (multicast_mac(&to, mac))
		return 0;
	if (to.family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)to.addr)) {
		local = memcmp(&sgid, to.addr, 16) == 0;
		memcpy(hop_addr, to.addr, 16); /* link-local: no route says more */
	} else if (next_hop(&to, hop_addr, &local)) {
		return -EHOSTUNREACH;
	}
	if (local) {
		memcpy(mac, mine, 6);
		return 0;
	}
	hop.addr = hop_addr;
	for (int waited = 0; waited <= WAIT_MS; waited += LOOK_MS) {
		if (neighbour(&hop, device->ifindex, mac) == 0)
			return 0;
		if (waited == 0)
			provoke(&to, device->ifindex);
		poll(NULL, 0, LOOK_MS);
	}
	return -EHOSTUNREACH;
}
