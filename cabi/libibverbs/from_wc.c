/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of the sender of a datagram: ibv_init_ah_from_wc(3), ibv_create_ah_from_wc(3).
 *
 * The 40 bytes ahead of a datagram are an IPv6 header or, in their last 20 bytes, an IPv4 header.
 */
#include "front.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

/* A header is valid if the one's complement sum of its words is all ones. Spec: RFC 791, 3.1 */
static int checksum_holds(const uint8_t *ip4)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += ip4[i] << 8 | ip4[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/*
 * The first 20 bytes are undefined ahead of an IPv4 header and may begin with a 6, so the checksum
 * of the IPv4 header decides.
 */
static int ip_version(const uint8_t grh[40])
{
	const uint8_t *ip4 = grh + 20;

	if (ip4[0] == 0x45 && (grh[0] >> 4 != 6 || checksum_holds(ip4)))
		return 4;
	return grh[0] >> 4 == 6 ? 6 : 0;
}

/* Returns the index of the GID that the datagram was sent to, or -1. */
static int local_index(struct ibv_context *ctx, uint8_t port, const union ibv_gid *gid)
{
	union ibv_gid have;

	for (int i = 0; ibv_query_gid(ctx, port, i, &have) == 0; i++)
		if (memcmp(&have, gid, sizeof(have)) == 0)
			return i;
	return -1;
}

static void map_ipv4(union ibv_gid *gid, const uint8_t addr[4])
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, addr, 4);
}

/* A multicast address is no source: no local GID is one. */
static int is_multicast(const union ibv_gid *gid)
{
	const struct in6_addr *a = (const struct in6_addr *)gid->raw;

	return IN6_IS_ADDR_MULTICAST(a) || (IN6_IS_ADDR_V4MAPPED(a) && (gid->raw[12] & 0xf0) == 0xe0);
}

VB_EXPORT VB_RETURNS_COUNT(int, ibv_init_ah_from_wc,
			   (struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc,
			    struct ibv_grh *grh, struct ibv_ah_attr *attr),
			   (ctx, port, wc, grh, attr))
{
	const uint8_t *raw = (const uint8_t *)grh;
	uint32_t flow;
	union ibv_gid local;
	int index;

	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	switch (ip_version(raw)) {
	case 4:
		map_ipv4(&attr->grh.dgid, raw + 20 + 12);
		map_ipv4(&local, raw + 20 + 16);
		attr->grh.traffic_class = raw[20 + 1];
		attr->grh.hop_limit = raw[20 + 8];
		break;
	case 6:
		if (grh->next_hdr != IPPROTO_UDP) {
			errno = EPROTONOSUPPORT; /* RoCE v1: not supported */
			return -1;
		}
		memcpy(&flow, raw, sizeof(flow));
		flow = be32toh(flow);
		attr->grh.dgid = grh->sgid;
		local = grh->dgid;
		attr->grh.flow_label = flow & 0xfffff;
		attr->grh.traffic_class = flow >> 20;
		attr->grh.hop_limit = grh->hop_limit;
		break;
	default:
		errno = EPROTONOSUPPORT;
		return -1;
	}
	if (is_multicast(&local)) {
		errno = EINVAL;
		return -1;
	}
	index = local_index(ctx, port, &local);
	if (index < 0)
		return -1; /* ibv_query_gid has set errno */
	attr->grh.sgid_index = index;
	return 0;
}

VB_EXPORT VB_RETURNS_POINTER(struct ibv_ah *, ibv_create_ah_from_wc,
	(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port), (pd, wc, grh, port))
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
