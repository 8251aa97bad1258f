/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of IBVERBS_1.0, for programs linked before libibverbs 1.1 (2007).
 *
 * Their structures have another layout. A wrapper could serve them, but no program of that age is
 * known that could test it. So the device list is empty, and functions that need a device fail.
 * Programs of libibverbs 1.1 and later ask for IBVERBS_1.1 and do not call these.
 */
#include "front.h"

#include <errno.h>

#define OLD(name, version) __asm__(".symver old_" #name ", " #name "@" version)

#define OLD_NULL(name)                                               \
	OLD(name, "IBVERBS_1.0");                                    \
	VB_EXPORT VB_RETURNS_POINTER(void *, old_##name, (void), ()) \
	{                                                            \
		errno = ENOSYS;                                      \
		return NULL;                                         \
	}

#define OLD_ERRNO(name)                                    \
	OLD(name, "IBVERBS_1.0");                          \
	VB_EXPORT VB_RETURNS_ERRNO(old_##name, (void), ()) \
	{                                                  \
		return ENOSYS;                             \
	}

/* Functions that return -1 and errno. */
#define OLD_MINUS(name)                                         \
	OLD(name, "IBVERBS_1.0");                               \
	VB_EXPORT VB_RETURNS_COUNT(int, old_##name, (void), ()) \
	{                                                       \
		errno = ENOSYS;                                 \
		return -1;                                      \
	}

#define OLD_VOID(name)                          \
	OLD(name, "IBVERBS_1.0");               \
	VB_EXPORT void old_##name(void);     \
	VB_EXPORT void old_##name(void)      \
	{                                       \
	}

OLD_VOID(ibv_ack_async_event)
OLD_VOID(ibv_ack_cq_events)
OLD_NULL(ibv_alloc_pd)
OLD_ERRNO(ibv_attach_mcast)
OLD_ERRNO(ibv_close_device)
OLD_NULL(ibv_create_ah)
OLD_NULL(ibv_create_cq)
OLD_NULL(ibv_create_qp)
OLD_NULL(ibv_create_srq)
OLD_ERRNO(ibv_dealloc_pd)
OLD_ERRNO(ibv_dereg_mr)
OLD_ERRNO(ibv_destroy_ah)
OLD_ERRNO(ibv_destroy_cq)
OLD_ERRNO(ibv_destroy_qp)
OLD_ERRNO(ibv_destroy_srq)
OLD_ERRNO(ibv_detach_mcast)
OLD_VOID(ibv_free_device_list)
OLD_MINUS(ibv_get_async_event)
OLD_MINUS(ibv_get_cq_event)
OLD_NULL(ibv_get_device_name)
OLD_ERRNO(ibv_modify_qp)
OLD_ERRNO(ibv_modify_srq)
OLD_NULL(ibv_open_device)
OLD_ERRNO(ibv_query_device)
OLD_MINUS(ibv_query_gid)
OLD_MINUS(ibv_query_pkey)
OLD_ERRNO(ibv_query_port)
OLD_ERRNO(ibv_query_qp)
OLD_ERRNO(ibv_query_srq)
OLD_NULL(ibv_reg_mr)
OLD_ERRNO(ibv_resize_cq)

OLD(ibv_get_device_list, "IBVERBS_1.0");
VB_EXPORT VB_RETURNS_POINTER(void *, old_ibv_get_device_list, (int *count), (count))
{
	if (count)
		*count = 0;
	errno = ENOSYS;
	return NULL;
}

OLD(ibv_get_device_guid, "IBVERBS_1.0");
VB_EXPORT uint64_t old_ibv_get_device_guid(void);
VB_EXPORT uint64_t old_ibv_get_device_guid(void)
{
	return 0;
}

/* Drivers registered by this before there was a private node. None of our devices is theirs. */
OLD(ibv_register_driver, "IBVERBS_1.1");
VB_EXPORT void old_ibv_register_driver(void);
VB_EXPORT void old_ibv_register_driver(void)
{
}
