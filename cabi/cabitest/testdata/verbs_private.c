/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that today's programs do not use: the versions from before libibverbs 1.1, the private
 * nodes, rdma-core 64's additions.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <dlfcn.h>

static void *self;

#define VERSIONED(type, name, version)                                                                                 \
	({                                                                                                             \
		__typeof__(type) *f_ = (__typeof__(type) *)dlvsym(self, name, version);                                \
		MUST(f_);                                                                                              \
		f_;                                                                                                    \
	})

typedef int int_function(void *, ...);
typedef void *pointer_function(void *, ...);

static void old(void)
{
	int n = 7;

	CHECK(dlvsym(self, "ibv_open_device", "IBVERBS_1.0") != dlvsym(self, "ibv_open_device", "IBVERBS_1.1"));
	CHECK(dlvsym(self, "ibv_open_device", "IBVERBS_1.1") == dlsym(self, "ibv_open_device"));
	REFUSED(VERSIONED(pointer_function, "ibv_get_device_list", "IBVERBS_1.0")(&n), ENOSYS);
	EQUAL(n, 0);
	REFUSED(VERSIONED(pointer_function, "ibv_open_device", "IBVERBS_1.0")(NULL), ENOSYS);
	EQUAL(VERSIONED(int_function, "ibv_query_device", "IBVERBS_1.0")(NULL, NULL), ENOSYS);
	EQUAL(VERSIONED(int_function, "ibv_query_gid", "IBVERBS_1.0")(NULL, 1, 0, NULL), -1);
	VERSIONED(void(void *), "ibv_free_device_list", "IBVERBS_1.0")(NULL);
	VERSIONED(void(const char *, void *), "ibv_register_driver", "IBVERBS_1.1")("other", NULL);
}

static void private_nodes(struct ibv_context *ctx)
{
	static const char *const nodes[] = {"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59",
					    "IBVERBS_PRIVATE_64", "IBVERBS_PRIVATE_65"};
	static const char *const drivers[] = {"verbs_register_driver_34", "verbs_register_driver_57", "verbs_register_driver_59",
					      "verbs_register_driver_64", "verbs_register_driver_65"};

	for (int i = 0; i < 5; i++) {
		int type = -1;

		EQUAL(VERSIONED(int(void *, uint8_t, unsigned, int *), "ibv_query_gid_type", nodes[i])(ctx, PORT, 0, &type), 0);
		EQUAL(type, 1); /* RoCE v2 */
		EQUAL(VERSIONED(int(void *, uint8_t, unsigned, int *), "ibv_query_gid_type", nodes[i])(ctx, PORT, 255, &type), 0);
		EQUAL(type, 0); /* an index that is free */
		EQUAL(VERSIONED(int(void *, uint8_t, unsigned, int *), "ibv_query_gid_type", nodes[i])(ctx, PORT, 256, &type), -1);
		EQUAL(VERSIONED(int_function, "ibv_cmd_alloc_pd", nodes[i])(ctx, NULL, NULL, (size_t)0, NULL, (size_t)0), EOPNOTSUPP);
		EQUAL(VERSIONED(int_function, "ibv_cmd_create_cq_ex2", nodes[i])(ctx, NULL), EOPNOTSUPP);
		EQUAL(VERSIONED(int_function, "execute_ioctl", nodes[i])(ctx, NULL), EOPNOTSUPP);
		EQUAL(VERSIONED(int_function, "ibv_cmd_poll_cq", nodes[i])(NULL, 1, NULL), -1);
		REFUSED(VERSIONED(pointer_function, "verbs_open_device", nodes[i])(ctx->device, NULL), EOPNOTSUPP);
		CHECK(*VERSIONED(const unsigned char, "verbs_allow_disassociate_destroy", nodes[i]) == 0);
		CHECK(!strcmp(VERSIONED(const char *(int), "ibv_wr_opcode_str", nodes[i])(IBV_WR_SEND), "send"));
		CHECK(!strcmp(VERSIONED(const char *(int), "ibv_wr_opcode_str", nodes[i])(12), "unknown"));
		VERSIONED(void(const void *), drivers[i], nodes[i])(NULL);
	}
}

static void newer(struct ibv_context *ctx)
{
	struct ibv_ece ece = {.vendor_id = 5, .options = 6, .comp_mask = 7};
	uint64_t speed;

	REFUSED(VERSIONED(pointer_function, "ibv_alloc_dmah", "IBVERBS_1.15")(ctx, NULL), EINVAL);
	EQUAL(VERSIONED(int_function, "ibv_query_port_speed", "IBVERBS_1.16")(ctx, 1, &speed), 0);
	EQUAL(VERSIONED(int_function, "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16")(NULL), -1);
	REFUSED(VERSIONED(pointer_function, "ibv_create_comp_cntr", "IBVERBS_1.18")(ctx, NULL), EINVAL);
	EQUAL(VERSIONED(int_function, "_ibv_query_comp_cntr_caps", "IBVERBS_1.18")(ctx, NULL, (size_t)0), EINVAL);

	EQUAL(ibv_set_ece(NULL, &ece), EOPNOTSUPP);
	EQUAL(ibv_query_ece(NULL, &ece), EOPNOTSUPP);
	EQUAL(ece.vendor_id + ece.options + ece.comp_mask, 0);
	EQUAL(ibv_query_qp_data_in_order(NULL, IBV_WR_SEND, 0), 0);
}

/*
 * Vendors' libraries that programs are linked with find all that they import,
 * and no device of theirs. Which are installed depends on the system.
 */
static void vendors(struct ibv_context *ctx)
{
	static const struct {
		const char *library, *is_supported;
	} all[] = {{"libmlx5.so.1", "mlx5dv_is_supported"}, {"libefa.so.1", NULL}, {"libmlx4.so.1", NULL}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		void *lib = dlopen(all[i].library, RTLD_NOW | RTLD_LOCAL);
		void *sym;

		if (!lib) {
			const char *why = dlerror();

			CHECK(strstr(why, "cannot open shared object file"));
			printf("%s\n", why);
			continue;
		}
		if (!all[i].is_supported)
			continue;
		MUST(sym = dlsym(lib, all[i].is_supported));
		EQUAL(((_Bool(*)(struct ibv_device *))sym)(ctx->device), 0);
	}
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	MUST(self = dlopen("libibverbs.so.1", RTLD_NOW));
	old();
	private_nodes(ctx);
	newer(ctx);
	vendors(ctx);
	return finish(ctx);
}
