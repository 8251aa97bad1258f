/* SPDX-License-Identifier: BSD-2-Clause */
/* The way back to a datagram's sender, from headers of either kind, and the address within a peer's
 * GID. */
#include "loop.h"

#include <arpa/inet.h>
#include <net/if.h>

static void ip4_header(uint8_t *h, uint8_t tos, const char *from, const char *to)
{
	uint32_t sum = 0;

	memset(h, 0, 20);
	h[0] = 0x45;
	h[1] = tos;
	h[8] = 63;
	h[9] = IPPROTO_UDP;
	MUST(inet_pton(AF_INET, from, h + 12) == 1 && inet_pton(AF_INET, to, h + 16) == 1);
	for (int i = 0; i < 20; i += 2)
		sum += h[i] << 8 | h[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	h[10] = ~sum >> 8;
	h[11] = ~sum;
}

static void ip6_header(uint8_t *h, const char *from, const char *to, uint8_t next)
{
	memset(h, 0, 40);
	h[0] = 0x60 | 0xa;
	h[1] = 0xb1;
	h[2] = 0x23;
	h[3] = 0x45;
	h[6] = next;
	h[7] = 62;
	MUST(inet_pton(AF_INET6, from, h + 8) == 1 && inet_pton(AF_INET6, to, h + 24) == 1);
}

static int same_gid(const union ibv_gid *gid, const char *text)
{
	union ibv_gid want;

	MUST(inet_pton(AF_INET6, text, want.raw) == 1);
	return !memcmp(gid, &want, sizeof(want));
}

static void headers(struct ibv_context *ctx)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .sl = 3, .slid = 7, .dlid_path_bits = 1};
	struct ibv_ah_attr attr;
	union ibv_gid local;
	union {
		struct ibv_grh grh;
		uint8_t raw[40];
	} h;

	/* Whatever stands ahead of an IPv4 header. */
	for (int junk = 0; junk < 256; junk += 0x60) {
		memset(&h, junk, sizeof(h));
		ip4_header(h.raw + 20, 0x20, "127.0.0.9", "127.0.0.1");
		memset(&attr, 0xaa, sizeof(attr));
		EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), 0);
		CHECK(same_gid(&attr.grh.dgid, "::ffff:127.0.0.9"));
		EQUAL(attr.grh.sgid_index, gid_index(ctx));
		EQUAL(attr.grh.hop_limit, 63);
		EQUAL(attr.grh.traffic_class, 0x20);
		EQUAL(attr.is_global, 1);
		EQUAL(attr.sl, 3);
		EQUAL(attr.dlid, 7);
		EQUAL(attr.src_path_bits, 1);
		EQUAL(attr.port_num, PORT);
	}
	/* Not one of ours, a group, no IP at all. */
	ip4_header(h.raw + 20, 0, "127.0.0.9", "192.0.2.77");
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), -1);
	ip4_header(h.raw + 20, 0, "127.0.0.9", "224.0.0.1");
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), -1);
	EQUAL(errno, EINVAL);
	memset(&h, 0x10, sizeof(h));
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), -1);
	EQUAL(errno, EPROTONOSUPPORT);

	/* Without a header there is a LID only. */
	wc.wc_flags = 0;
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), 0);
	EQUAL(attr.is_global, 0);
	EQUAL(attr.dlid, 7);

	wc.wc_flags = IBV_WC_GRH;
	ip6_header(h.raw, "2001:db8::5", "ff02::1", IPPROTO_UDP);
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), -1);
	EQUAL(errno, EINVAL);
	ip6_header(h.raw, "2001:db8::5", "::1", 0x1b); /* RoCE v1 */
	EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), -1);
	EQUAL(errno, EPROTONOSUPPORT);
	/* ::1 where the system has IPv6. */
	for (int i = 0; ibv_query_gid(ctx, PORT, i, &local) == 0; i++) {
		if (!same_gid(&local, "::1"))
			continue;
		ip6_header(h.raw, "2001:db8::5", "::1", IPPROTO_UDP);
		EQUAL(ibv_init_ah_from_wc(ctx, PORT, &wc, &h.grh, &attr), 0);
		CHECK(same_gid(&attr.grh.dgid, "2001:db8::5"));
		EQUAL(attr.grh.sgid_index, i);
		EQUAL(attr.grh.traffic_class, 0xab);
		EQUAL(attr.grh.flow_label, 0x12345);
		EQUAL(attr.grh.hop_limit, 62);
	}
}

static void handles(struct ibv_context *ctx)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_ah *ah;
	union {
		struct ibv_grh grh;
		uint8_t raw[40];
	} h = {.raw = {0}};

	MUST(pd);
	ip4_header(h.raw + 20, 0, "127.0.0.1", "127.0.0.1");
	MUST(ah = ibv_create_ah_from_wc(pd, &wc, &h.grh, PORT));
	EQUAL(ibv_destroy_ah(ah), 0);
	memset(&h, 0, sizeof(h));
	REFUSED(ibv_create_ah_from_wc(pd, &wc, &h.grh, PORT), EPROTONOSUPPORT);
	EQUAL(ibv_dealloc_pd(pd), 0);
}

static void link_layer(struct ibv_context *ctx)
{
	static const uint8_t zeros[6], group4[6] = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}, group6[6] = {0x33, 0x33, 0, 0, 0, 0x42};
	struct ibv_ah_attr attr = address(ctx); /* 127.0.0.1 */
	uint8_t mac[6] = {1, 2, 3, 4, 5, 6};
	uint16_t vlan = 0;

	EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vlan), 0);
	CHECK(!memcmp(mac, zeros, 6)); /* lo's */
	EQUAL(vlan, 0xffff);
	MUST(inet_pton(AF_INET6, "::ffff:225.1.2.3", attr.grh.dgid.raw) == 1);
	EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), 0);
	CHECK(!memcmp(mac, group4, 6));
	MUST(inet_pton(AF_INET6, "ff0e::ffff:225.1.2.3", attr.grh.dgid.raw) == 1);
	EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), 0);
	CHECK(!memcmp(mac, group4, 6));
	MUST(inet_pton(AF_INET6, "ff02::42", attr.grh.dgid.raw) == 1);
	EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), 0);
	CHECK(!memcmp(mac, group6, 6));
	attr.port_num = 2;
	EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), -EINVAL);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	headers(ctx);
	handles(ctx);
	link_layer(ctx);
	return finish(ctx);
}
