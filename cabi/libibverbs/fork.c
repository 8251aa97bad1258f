/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(2): the handlers that keep the front usable in a child, and ibv_fork_init(3),
 * ibv_is_fork_initialized(3) and the calls of vendors, which do nothing here. They exist because
 * the pages that an RNIC uses must not be copied on write. The engine reaches memory through the
 * page tables of the process.
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
	vb_channels_before_fork();
	vb_sleepers_before_fork();
}

static void in_parent(void)
{
	vb_sleepers_after_fork_in_parent();
	vb_channels_after_fork_in_parent();
	vb_gids_after_fork_in_parent();
	vb_cookies_after_fork();
	vb_devices_after_fork();
	vb_engine_after_fork_in_parent();
}

static void in_child(void)
{
	vb_sleepers_after_fork_in_child();
	vb_channels_after_fork_in_child();
	vb_gids_after_fork_in_child();
	vb_cookies_after_fork();
	vb_devices_after_fork();
	vb_share_after_fork_in_child();
	vb_engine_after_fork_in_child();
}

/*
 * The library, and with it the handlers, is never unloaded (-z nodelete). Without memory for them
 * the program cannot go on anyway.
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
 * Memory needs no protection over a fork. rdma-core returns this value when the kernel says so
 * (RDMA_SYS_ATTR_COPY_ON_FORK).
 */
VB_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* No public header declares them: libraries of vendors call them around their own memory. */
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
