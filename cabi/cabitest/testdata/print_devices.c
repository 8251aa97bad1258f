/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints every answer about a device that needs no object. The attributes have the order of
 * ib.DeviceAttr and ib.PortAttr.
 */
#include "loop.h"

#include <endian.h>

#define U(x) printf(" %llu", (unsigned long long)(x))

static void print_device(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex x;
	struct ibv_device_attr *a = &x.orig_attr;
	static const struct ibv_device_attr_ex none;

	MUST(ibv_query_device_ex(ctx, NULL, &x) == 0);
	EQUAL(a->device_cap_flags, (uint32_t)x.device_cap_flags_ex);
	EQUAL(a->phys_port_cnt, x.phys_port_cnt_ex);
	printf("device %s", a->fw_ver);
	U(ctx->device->node_type), U(be64toh(a->node_guid)), U(be64toh(a->sys_image_guid));
	U(a->max_mr_size), U(a->page_size_cap), U(a->vendor_id), U(a->vendor_part_id), U(a->hw_ver);
	U(a->max_qp), U(a->max_qp_wr), U(x.device_cap_flags_ex), U(a->max_sge), U(a->max_sge_rd);
	U(a->max_cq), U(a->max_cqe), U(a->max_mr), U(a->max_pd), U(a->max_qp_rd_atom);
	U(a->max_ee_rd_atom), U(a->max_res_rd_atom), U(a->max_qp_init_rd_atom);
	U(a->max_ee_init_rd_atom), U(a->atomic_cap), U(a->max_ee), U(a->max_rdd), U(a->max_mw);
	U(a->max_raw_ipv6_qp), U(a->max_raw_ethy_qp), U(a->max_mcast_grp), U(a->max_mcast_qp_attach);
	U(a->max_total_mcast_qp_attach), U(a->max_ah), U(a->max_fmr), U(a->max_map_per_fmr);
	U(a->max_srq), U(a->max_srq_wr), U(a->max_srq_sge), U(a->max_pkeys), U(a->local_ca_ack_delay);
	U(a->phys_port_cnt);
	U(x.odp_caps.general_caps), U(x.odp_caps.per_transport_caps.rc_odp_caps);
	U(x.odp_caps.per_transport_caps.uc_odp_caps), U(x.odp_caps.per_transport_caps.ud_odp_caps);
	U(x.xrc_odp_caps), U(x.max_dm_size), U(x.hca_core_clock), U(x.completion_timestamp_mask);
	U(x.packet_pacing_caps.qp_rate_limit_min), U(x.packet_pacing_caps.qp_rate_limit_max);
	U(x.packet_pacing_caps.supported_qpts);
	U(x.rss_caps.supported_qpts), U(x.rss_caps.max_rwq_indirection_tables);
	U(x.rss_caps.max_rwq_indirection_table_size), U(x.rss_caps.rx_hash_fields_mask);
	U(x.rss_caps.rx_hash_function), U(x.max_wq_type_rq);
	U(x.tm_caps.max_rndv_hdr_size), U(x.tm_caps.max_num_tags), U(x.tm_caps.flags);
	U(x.tm_caps.max_ops), U(x.tm_caps.max_sge);
	U(x.cq_mod_caps.max_cq_count), U(x.cq_mod_caps.max_cq_period);
	printf("\n");

	/* Nothing else is set. */
	memset(a, 0, sizeof(*a));
	x.device_cap_flags_ex = 0;
	x.phys_port_cnt_ex = 0;
	x.odp_caps = none.odp_caps;
	x.xrc_odp_caps = 0;
	x.max_dm_size = x.hca_core_clock = x.completion_timestamp_mask = 0;
	x.packet_pacing_caps = none.packet_pacing_caps;
	memset(&x.rss_caps, 0, sizeof(x.rss_caps));
	x.max_wq_type_rq = 0;
	memset(&x.tm_caps, 0, sizeof(x.tm_caps));
	x.cq_mod_caps = none.cq_mod_caps;
	CHECK(!memcmp(&x, &none, sizeof(x)));
}

static void print_port(struct ibv_context *ctx)
{
	struct ibv_gid_entry entries[256];
	struct ibv_port_attr p;
	__be16 pkey;
	int n;

	MUST(ibv_query_port(ctx, PORT, &p) == 0);
	printf("port");
	U(p.state), U(p.max_mtu), U(p.active_mtu), U(p.gid_tbl_len), U(p.port_cap_flags);
	U(p.max_msg_sz), U(p.bad_pkey_cntr), U(p.qkey_viol_cntr), U(p.pkey_tbl_len), U(p.lid);
	U(p.sm_lid), U(p.lmc), U(p.max_vl_num), U(p.sm_sl), U(p.subnet_timeout), U(p.init_type_reply);
	U(p.active_width), U(p.active_speed), U(p.phys_state), U(p.link_layer);
	printf("\n");
	CHECK(p.flags == 0 && p.port_cap_flags2 == 0);
	for (n = 0; ibv_query_pkey(ctx, PORT, n, &pkey) == 0; n++) {
		printf("pkey %d %#x\n", n, be16toh(pkey));
		EQUAL(ibv_get_pkey_index(ctx, PORT, pkey), n);
	}
	n = ibv_query_gid_table(ctx, entries, 256, 0);
	MUST(n >= 0);
	for (int i = 0; i < n; i++) {
		struct ibv_gid_entry one;
		union ibv_gid gid;

		printf("gid %u type %u if %u ", entries[i].gid_index, entries[i].gid_type, entries[i].ndev_ifindex);
		for (int j = 0; j < 16; j++)
			printf("%02x", entries[i].gid.raw[j]);
		printf("\n");
		EQUAL(ibv_query_gid(ctx, PORT, i, &gid), 0);
		CHECK(!memcmp(&gid, &entries[i].gid, sizeof(gid)));
		EQUAL(ibv_query_gid_ex(ctx, PORT, i, &one, 0), 0);
		CHECK(!memcmp(&one, &entries[i], sizeof(one)));
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	for (int i = 0; list[i]; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		MUST(ctx);
		printf("%s guid %016llx index %d transport %d\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])),
		       ibv_get_device_index(list[i]), list[i]->transport_type);
		print_device(ctx);
		print_port(ctx);
		EQUAL(ibv_close_device(ctx), 0);
	}
	ibv_free_device_list(list);
	return failures ? 1 : 0;
}
