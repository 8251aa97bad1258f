/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library by dlopen and dlvsym, as plugins and NCCL have it, unloaded and
 * loaded again; and an application that closes its descriptors as a daemon does,
 * before it needs the engine.
 */
#define _GNU_SOURCE
#include "loop.h"
#include "descriptors.h"

#include <dlfcn.h>
#include <unistd.h>

#define ROUNDS 20

#define SYMBOL(lib, name) ((__typeof__(&name))dlvsym(lib, #name, "IBVERBS_1.1"))

static void once(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_wc wc;

	MUST(lib);
	MUST(list = SYMBOL(lib, ibv_get_device_list)(NULL));
	MUST(list[0] && (ctx = SYMBOL(lib, ibv_open_device)(list[0])));
	SYMBOL(lib, ibv_free_device_list)(list);
	MUST(pd = SYMBOL(lib, ibv_alloc_pd)(ctx));
	MUST(cq = SYMBOL(lib, ibv_create_cq)(ctx, 1, NULL, NULL, 0));
	EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
	EQUAL(SYMBOL(lib, ibv_destroy_cq)(cq), 0);
	EQUAL(SYMBOL(lib, ibv_dealloc_pd)(pd), 0);
	EQUAL(SYMBOL(lib, ibv_close_device)(ctx), 0);
	EQUAL(dlclose(lib), 0);
}

int main(void)
{
	int before;

	close_range(3, ~0U, 0);
	once();
	before = descriptors();
	for (int i = 0; i < ROUNDS; i++)
		once();
	CHECK(descriptors() <= before);
	return failures ? 1 : 0;
}
