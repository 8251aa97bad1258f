/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork: the handlers that keep a child's front usable, and ibv_fork_init(3)
 * and its kin, which on this device have nothing to do. They exist because the
 * pages that an RNIC was told of must not be copied on write; the engine
 * reaches memory through the process's own page tables.
 */
#define _GNU_SOURCE
#include "front.h"
#include "fork.h"

#include <pthread.h>

static void before(void)
{
	vb_engine_before_fork();
	vb_devices_before_fork();
	vb_cookies_before_fork();
	vb_gids_before_fork();
}

static void in_parent(void)
{
	vb_gids_after_fork_in_parent();
	vb_cookies_after_fork();
	vb_devices_after_fork();
	vb_engine_after_fork_in_parent();
}

static void in_child(void)
{
	vb_gids_after_fork_in_child();
	vb_cookies_after_fork();
	vb_devices_after_fork();
	vb_engine_after_fork_in_child();
}

/*
 * The library is never unloaded (-z nodelete), so neither are the handlers. If
 * there is no memory for them the program is not going to get far anyway.
 */
__attribute__((constructor)) static void install(void)
{
	pthread_atfork(before, in_parent, in_child);
}

VB_EXPORT VB_RETURNS_ERRNO(ibv_fork_init, (void), ())
{
	return 0;
}

/*
 * Copy-on-fork needs no help: so says the kernel's own answer, RDMA_SYS_ATTR_
 * COPY_ON_FORK, that rdma-core hands on as this value.
 */
VB_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Not in a public header: libraries of vendors call them around their own memory. */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_dontfork_range, (void *base, size_t size), (base, size))
{
	(void)base;
	(void)size;
	return 0;
}

VB_EXPORT VB_RETURNS_COUNT(int, ibv_dofork_range, (void *base, size_t size), (base, size))
{
	(void)base;
	(void)size;
	return 0;
}
