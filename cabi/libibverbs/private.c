/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private interface between libibverbs and its providers. Some programs are linked with
 * libraries of vendors (libmlx5.so.1, libefa.so.1, libmlx4.so.1), which import all of this and find
 * none of their devices here. So they call only the registration of a driver, when they are loaded.
 *
 * The others are commands to the device of a kernel and return EOPNOTSUPP, as those of rdma-core do
 * for a device without them. rdma-core 44 and 64 name the node differently; a function of both has
 * two symbols.
 *
 * The functions are defined without the arguments that they ignore.
 */
#include "front.h"
#include "private.h"

#include <errno.h>
#include <stdbool.h>

#define COMMAND(name)                                          \
	VB_EXPORT VB_RETURNS_ERRNO(private_##name, (void), ()) \
	{                                                      \
		return EOPNOTSUPP;                             \
	}                                                      \
	VB_PRIVATE_NODES(name);

COMMAND(execute_ioctl)
COMMAND(ibv_cmd_advise_mr)
COMMAND(ibv_cmd_alloc_dm)
COMMAND(ibv_cmd_alloc_dmah)
COMMAND(ibv_cmd_alloc_mw)
COMMAND(ibv_cmd_alloc_pd)
COMMAND(ibv_cmd_attach_mcast)
COMMAND(ibv_cmd_close_xrcd)
COMMAND(ibv_cmd_create_ah)
COMMAND(ibv_cmd_create_comp_cntr)
COMMAND(ibv_cmd_create_counters)
COMMAND(ibv_cmd_create_cq)
COMMAND(ibv_cmd_create_cq_ex)
COMMAND(ibv_cmd_create_cq_ex2)
COMMAND(ibv_cmd_create_flow)
COMMAND(ibv_cmd_create_flow_action_esp)
COMMAND(ibv_cmd_create_qp)
COMMAND(ibv_cmd_create_qp_ex)
COMMAND(ibv_cmd_create_qp_ex2)
COMMAND(ibv_cmd_create_rwq_ind_table)
COMMAND(ibv_cmd_create_srq)
COMMAND(ibv_cmd_create_srq_ex)
COMMAND(ibv_cmd_create_wq)
COMMAND(ibv_cmd_dealloc_mw)
COMMAND(ibv_cmd_dealloc_pd)
COMMAND(ibv_cmd_dereg_mr)
COMMAND(ibv_cmd_destroy_ah)
COMMAND(ibv_cmd_destroy_comp_cntr)
COMMAND(ibv_cmd_destroy_counters)
COMMAND(ibv_cmd_destroy_cq)
COMMAND(ibv_cmd_destroy_flow)
COMMAND(ibv_cmd_destroy_flow_action)
COMMAND(ibv_cmd_destroy_qp)
COMMAND(ibv_cmd_destroy_rwq_ind_table)
COMMAND(ibv_cmd_destroy_srq)
COMMAND(ibv_cmd_destroy_wq)
COMMAND(ibv_cmd_detach_mcast)
COMMAND(ibv_cmd_free_dm)
COMMAND(ibv_cmd_free_dmah)
COMMAND(ibv_cmd_get_context)
COMMAND(ibv_cmd_inc_comp_cntr)
COMMAND(ibv_cmd_inc_err_comp_cntr)
COMMAND(ibv_cmd_modify_cq)
COMMAND(ibv_cmd_modify_flow_action_esp)
COMMAND(ibv_cmd_modify_qp)
COMMAND(ibv_cmd_modify_qp_ex)
COMMAND(ibv_cmd_modify_srq)
COMMAND(ibv_cmd_modify_wq)
COMMAND(ibv_cmd_open_qp)
COMMAND(ibv_cmd_open_xrcd)
COMMAND(ibv_cmd_post_recv)
COMMAND(ibv_cmd_post_send)
COMMAND(ibv_cmd_post_srq_recv)
COMMAND(ibv_cmd_qp_attach_comp_cntr)
COMMAND(ibv_cmd_query_comp_cntr_caps)
COMMAND(ibv_cmd_query_context)
COMMAND(ibv_cmd_query_device_any)
COMMAND(ibv_cmd_query_mr)
COMMAND(ibv_cmd_query_port)
COMMAND(ibv_cmd_query_port_speed)
COMMAND(ibv_cmd_query_qp)
COMMAND(ibv_cmd_query_srq)
COMMAND(ibv_cmd_read_comp_cntr)
COMMAND(ibv_cmd_read_counters)
COMMAND(ibv_cmd_read_err_comp_cntr)
COMMAND(ibv_cmd_reg_dm_mr)
COMMAND(ibv_cmd_reg_dmabuf_mr)
COMMAND(ibv_cmd_reg_mr)
COMMAND(ibv_cmd_reg_mr_ex)
COMMAND(ibv_cmd_req_notify_cq)
COMMAND(ibv_cmd_rereg_mr)
COMMAND(ibv_cmd_resize_cq)
COMMAND(ibv_cmd_set_comp_cntr)
COMMAND(ibv_cmd_set_err_comp_cntr)

/* -- functions of other types ---------------------------------------------- */

/* An array of objects that a provider may forget after a removal. It stays empty. */
VB_EXPORT bool private_verbs_allow_disassociate_destroy = false;
VB_PRIVATE_NODES(verbs_allow_disassociate_destroy);

/* Constructors of libraries of vendors register here. None of our devices is theirs. */
#define REGISTER(name)                         \
	VB_EXPORT void name(const void *ops);  \
	VB_EXPORT void name(const void *ops)   \
	{                                      \
		(void)ops;                     \
	}

REGISTER(verbs_register_driver_34)
REGISTER(verbs_register_driver_57)
REGISTER(verbs_register_driver_59)
REGISTER(verbs_register_driver_64)
REGISTER(verbs_register_driver_65)

/* Opens a device with settings of a driver: vendors call it for devices of theirs. */
VB_EXPORT VB_RETURNS_POINTER(struct ibv_context *, private_verbs_open_device,
	(struct ibv_device *device, void *settings), (device, settings))
{
	(void)device;
	(void)settings;
	errno = EOPNOTSUPP;
	return NULL;
}
VB_PRIVATE_NODES(verbs_open_device);

VB_EXPORT VB_RETURNS_POINTER(void *, private__verbs_init_and_alloc_context, (void), ())
{
	errno = EOPNOTSUPP;
	return NULL;
}
VB_PRIVATE_NODES(_verbs_init_and_alloc_context);

/* Drivers initialise contexts and queues that they have allocated. Ours need nothing. */
#define NOTHING(name)                \
	VB_EXPORT void private_##name(void); \
	VB_EXPORT void private_##name(void)  \
	{                                    \
	}                                    \
	VB_PRIVATE_NODES(name);

NOTHING(verbs_init_cq)
NOTHING(verbs_set_ops)
NOTHING(verbs_uninit_context)
NOTHING(__verbs_log)

/* Returns the number of attributes in a chain of command buffers, which are never executed. */
VB_EXPORT unsigned private___ioctl_final_num_attrs(unsigned count, void *link);
VB_EXPORT unsigned private___ioctl_final_num_attrs(unsigned count, void *link)
{
	(void)link;
	return count;
}
VB_PRIVATE_NODES(__ioctl_final_num_attrs);

/* A negative number is the error of polling. */
VB_EXPORT VB_RETURNS_COUNT(int, private_ibv_cmd_poll_cq, (void), ())
{
	errno = EOPNOTSUPP;
	return -1;
}
VB_PRIVATE_NODES(ibv_cmd_poll_cq);

/* -- memory for devices, of rdma-core 62 and later ------------------------------ */

VB_EXPORT VB_RETURNS_COUNT(int, private_ibv_cmd_export_dmabuf_fd, (void), ())
{
	errno = EOPNOTSUPP;
	return -1;
}
VB_PRIVATE_NODES(ibv_cmd_export_dmabuf_fd);

VB_EXPORT VB_RETURNS_POINTER(void *, private_ibv_dmabuf_heap_cc_shared_init, (void), ())
{
	errno = EOPNOTSUPP;
	return NULL;
}
VB_PRIVATE_NODES(ibv_dmabuf_heap_cc_shared_init);

VB_EXPORT VB_RETURNS_POINTER(void *, private_ibv_dmabuf_heap_alloc, (void), ())
{
	errno = EOPNOTSUPP;
	return NULL;
}
VB_PRIVATE_NODES(ibv_dmabuf_heap_alloc);

/* Nothing was allocated. */
NOTHING(ibv_dmabuf_heap_destroy)
NOTHING(ibv_dmabuf_heap_free)
