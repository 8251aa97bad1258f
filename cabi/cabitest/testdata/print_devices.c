/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints what can be asked of every device without an object, a line an answer. */
#include "loop.h"

#include <endian.h>

static void print_device(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex x;
	struct ibv_device_attr *a = &x.orig_attr;

	MUST(ibv_query_device_ex(ctx, NULL, &x) == 0);
	printf("fw %s guid %016llx sys %016llx\n", a->fw_ver, (unsigned long long)be64toh(a->node_guid),
	       (unsigned long long)be64toh(a->sys_image_guid));
	printf("mr %llu pages %llu vendor %u part %u hw %u\n", (unsigned long long)a->max_mr_size,
	       (unsigned long long)a->page_size_cap, a->vendor_id, a->vendor_part_id, a->hw_ver);
	printf("qp %d wr %d caps %llu %llu sge %d %d cq %d cqe %d mr %d pd %d\n", a->max_qp, a->max_qp_wr,
	       (unsigned long long)a->device_cap_flags, (unsigned long long)x.device_cap_flags_ex, a->max_sge, a->max_sge_rd,
	       a->max_cq, a->max_cqe, a->max_mr, a->max_pd);
	printf("rd %d %d %d %d %d atomic %d ee %d rdd %d mw %d raw %d %d\n", a->max_qp_rd_atom, a->max_ee_rd_atom,
	       a->max_res_rd_atom, a->max_qp_init_rd_atom, a->max_ee_init_rd_atom, a->atomic_cap, a->max_ee, a->max_rdd,
	       a->max_mw, a->max_raw_ipv6_qp, a->max_raw_ethy_qp);
	printf("mcast %d %d %d ah %d fmr %d %d srq %d %d %d pkeys %d delay %d ports %d\n", a->max_mcast_grp,
	       a->max_mcast_qp_attach, a->max_total_mcast_qp_attach, a->max_ah, a->max_fmr, a->max_map_per_fmr, a->max_srq,
	       a->max_srq_wr, a->max_srq_sge, a->max_pkeys, a->local_ca_ack_delay, a->phys_port_cnt);
}

static void print_port(struct ibv_context *ctx)
{
	struct ibv_gid_entry entries[256];
	struct ibv_port_attr p;
	int n;

	MUST(ibv_query_port(ctx, PORT, &p) == 0);
	printf("state %d mtu %d %d gids %d caps %u msg %u bad %u %u pkeys %d lid %d %d lmc %d\n", p.state, p.max_mtu, p.active_mtu,
	       p.gid_tbl_len, p.port_cap_flags, p.max_msg_sz, p.bad_pkey_cntr, p.qkey_viol_cntr, p.pkey_tbl_len, p.lid, p.sm_lid,
	       p.lmc);
	printf("vl %d sl %d timeout %d init %d width %d speed %d phys %d link %d\n", p.max_vl_num, p.sm_sl, p.subnet_timeout,
	       p.init_type_reply, p.active_width, p.active_speed, p.phys_state, p.link_layer);
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
		printf("%s guid %016llx index %d node %d\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])), ibv_get_device_index(list[i]),
		       list[i]->node_type);
		print_device(ctx);
		print_port(ctx);
		EQUAL(ibv_close_device(ctx), 0);
	}
	ibv_free_device_list(list);
	return failures ? 1 : 0;
}
