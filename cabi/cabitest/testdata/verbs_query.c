/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists, contexts and queries: arguments that are wrong, sizes of structures, and no engine for all that. */
#include "loop.h"
#include "newer.h"

#include <endian.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

static int engine_is_loaded(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	int loaded = 0;

	MUST(maps);
	while (fgets(line, sizeof(line), maps))
		loaded |= strstr(line, "libverbena-engine") != NULL;
	fclose(maps);
	return loaded;
}

/* Devices keep their pointers, and those in use outlive their lists. */
static void lists(void)
{
	int n1 = -1, n2 = -1;
	struct ibv_device **a = ibv_get_device_list(&n1), **b = ibv_get_device_list(&n2), *lo;
	struct ibv_context *ctx;

	MUST(a && b);
	EQUAL(n1, n2);
	CHECK(n1 > 0 && !a[n1] && !b[n1]);
	for (int i = 0; i < n1; i++) {
		char path[300];

		CHECK(a[i] == b[i]);
		CHECK(!strncmp(a[i]->name, "roce_", 5));
		EQUAL(ibv_get_device_index(a[i]), if_nametoindex(a[i]->name + 5));
		EQUAL(a[i]->node_type, IBV_NODE_CA);
		EQUAL(a[i]->transport_type, IBV_TRANSPORT_IB);
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s", a[i]->name);
		CHECK(!strcmp(a[i]->ibdev_path, path));
		snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s", a[i]->dev_name);
		CHECK(!strcmp(a[i]->dev_path, path));
	}
	ibv_free_device_list(a);
	lo = b[n1 - 1];
	CHECK(!strcmp(ibv_get_device_name(lo), "roce_lo")); /* loopback is last */
	ctx = ibv_open_device(lo);
	MUST(ctx);
	ibv_free_device_list(b);
	CHECK(ctx->device == lo && !strcmp(lo->name, "roce_lo"));
	EQUAL(ibv_close_device(ctx), 0);
	ibv_free_device_list(NULL);
	REFUSED(ibv_open_device(NULL), EINVAL);
}

static void context(struct ibv_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx);

	MUST(v);
	EQUAL(v->sz, sizeof(*v));
	CHECK(fcntl(ctx->cmd_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(ctx->async_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!readable(ctx->async_fd, 0));
	EQUAL(ctx->num_comp_vectors, 1);
}

/* Everything of a structure is written, nothing behind it. */
static void sizes(struct ibv_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	union {
		struct ibv_port_attr port;
		struct ibv_device_attr_ex device;
		struct ibv_gid_entry gids[4];
		unsigned char raw[1024];
	} u;
	/* 48: binaries of before port_cap_flags2; 52: rdma-core 44; 56: 64, with active_speed_ex. */
	static const size_t ports[] = {48, 52, 56};
	static const size_t devices[] = {sizeof(struct ibv_device_attr), sizeof(struct ibv_device_attr) + 4,
					 sizeof(struct ibv_device_attr_ex), sizeof(struct ibv_device_attr_ex) + 64};

	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		memset(&u, 0xaa, sizeof(u));
		EQUAL(v->query_port(ctx, PORT, &u.port, ports[i]), 0);
		EQUAL(u.port.gid_tbl_len, 256);
		EQUAL(u.raw[ports[i]], 0xaa);
		if (ports[i] > 48)
			EQUAL(u.raw[ports[i] - 1], 0);
	}
	memset(&u, 0xaa, sizeof(u));
#undef ibv_query_port
	EQUAL(ibv_query_port(ctx, PORT, (void *)&u.port), 0);
	EQUAL(u.port.link_layer, IBV_LINK_LAYER_ETHERNET);
	EQUAL(u.port.flags, 0);
	EQUAL(u.raw[48], 0xaa);
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		memset(&u, 0xaa, sizeof(u));
		EQUAL(v->query_device_ex(ctx, NULL, &u.device, devices[i]), 0);
		EQUAL(u.device.orig_attr.phys_port_cnt, 1);
		if (devices[i] > sizeof(struct ibv_device_attr))
			EQUAL(u.raw[devices[i] - 1], 0);
		EQUAL(u.raw[devices[i]], 0xaa);
	}
	EQUAL(v->query_device_ex(ctx, NULL, &u.device, sizeof(struct ibv_device_attr) - 1), EINVAL);
	memset(&u, 0xaa, sizeof(u));
	EQUAL(_ibv_query_gid_ex(ctx, PORT, 0, u.gids, 0, 40), 0);
	EQUAL(u.raw[39], 0);
	EQUAL(u.raw[40], 0xaa);
	memset(&u, 0xaa, sizeof(u));
	EQUAL(_ibv_query_gid_ex(ctx, PORT, 0, u.gids, 0, 20), 0);
	EQUAL(u.raw[20], 0xaa);
}

static void refusals(struct ibv_context *ctx)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct verbs_context *v = verbs_get_ctx(ctx);
	struct ibv_device_attr_ex x;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry, all[256];
	union ibv_gid gid, zero = {.raw = {0}};
	uint64_t speed;
	__be16 pkey;
	int n;

	EQUAL(ibv_query_device(ctx, NULL), EINVAL);
	EQUAL(ibv_query_device_ex(ctx, &input, &x), EINVAL);
	MUST(v->query_port(ctx, PORT, &port, sizeof(port)) == 0);
	EQUAL(ibv_query_port_speed(ctx, PORT, &speed), 0);
	CHECK(port.active_width == 1 && speed == port.active_speed * 25U); /* one lane of 2.5 Gb/s */
	EQUAL(ibv_query_port_speed(ctx, 0, &speed), EINVAL);
	EQUAL(ibv_query_port_speed(ctx, 2, &speed), EINVAL);
	EQUAL(ibv_query_port_speed(ctx, PORT, NULL), EINVAL);
	EQUAL(v->query_port(ctx, 0, &port, sizeof(port)), EINVAL);
	EQUAL(v->query_port(ctx, 2, &port, sizeof(port)), EINVAL);
	EQUAL(v->query_port(ctx, PORT, NULL, sizeof(port)), EINVAL);

	EQUAL(ibv_query_pkey(ctx, PORT, 0, &pkey), 0);
	EQUAL(be16toh(pkey), 0xffff);
	EQUAL(ibv_query_pkey(ctx, PORT, 1, &pkey), -1);
	EQUAL(ibv_query_pkey(ctx, PORT, -1, &pkey), -1);
	EQUAL(ibv_query_pkey(ctx, 2, 0, &pkey), -1);
	EQUAL(ibv_get_pkey_index(ctx, PORT, htobe16(0xffff)), 0);
	EQUAL(ibv_get_pkey_index(ctx, PORT, htobe16(0x1234)), -1);

	/* An index that is free is there for one function and not for the other. */
	memset(&gid, 0xaa, sizeof(gid));
	EQUAL(ibv_query_gid(ctx, PORT, 255, &gid), 0);
	CHECK(!memcmp(&gid, &zero, sizeof(gid)));
	EQUAL(ibv_query_gid_ex(ctx, PORT, 255, &entry, 0), ENODATA);
	EQUAL(ibv_query_gid(ctx, PORT, 256, &gid), -1);
	EQUAL(ibv_query_gid(ctx, PORT, -1, &gid), -1);
	EQUAL(ibv_query_gid(ctx, 2, 0, &gid), -1);
	EQUAL(ibv_query_gid_ex(ctx, PORT, 256, &entry, 0), EINVAL);
	EQUAL(ibv_query_gid_ex(ctx, 0, 0, &entry, 0), EINVAL);
	EQUAL(ibv_query_gid_ex(ctx, PORT, 0, &entry, 1), EINVAL);
	EQUAL(ibv_query_gid_ex(ctx, PORT, 0, NULL, 0), EINVAL);
	n = ibv_query_gid_table(ctx, all, 256, 0);
	CHECK(n > 0);
	EQUAL(ibv_query_gid_table(ctx, all, n, 0), n);
	EQUAL(ibv_query_gid_table(ctx, all, 0, 0), -EINVAL);
	EQUAL(ibv_query_gid_table(ctx, all, 256, 1), -EINVAL);
	if (n > 1)
		EQUAL(ibv_query_gid_table(ctx, all, n - 1, 0), -EINVAL);
}

int main(void)
{
	struct ibv_context *ctx;

	lists();
	ctx = open_loopback();
	context(ctx);
	sizes(ctx);
	refusals(ctx);
	CHECK(!engine_is_loaded());
	EQUAL(ibv_dealloc_pd(ibv_alloc_pd(ctx)), 0);
	CHECK(engine_is_loaded());
	return finish(ctx);
}
