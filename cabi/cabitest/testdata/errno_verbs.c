/* SPDX-License-Identifier: BSD-2-Clause */
/* errno after each function of libibverbs.so.1: calls.h. */
#define _GNU_SOURCE
#include "calls.h"
#include "comp_cntr.h"
#include "loop.h"
#include "newer.h"

#include <fcntl.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

/* Exported, and in no header. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *, struct ib_uverbs_ah_attr *);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *, struct ib_uverbs_qp_attr *);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *, struct ib_user_path_rec *);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *, struct ibv_sa_path_rec *);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, void *buf);
void ibv_free_buf(void *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, void *buf, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, void *attr);

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char *buf;

#define NO_ACCESS (1 << 15)

static void devices(void)
{
	struct ibv_device **list = SUCCEEDS(ibv_get_device_list, (NULL), != NULL), *device = NULL;

	for (int i = 0; list[i]; i++)
		if (!strcmp(SUCCEEDS(ibv_get_device_name, (list[i]), != NULL), otherwise("LOOP_DEVICE", "roce_lo")))
			device = list[i];
	MUST(device);
	SUCCEEDS(ibv_get_device_guid, (device), != 0);
	SUCCEEDS(ibv_get_device_index, (device), >= 0);
	ctx = SUCCEEDS(ibv_open_device, (device), != NULL);
	DOES(ibv_free_device_list, (list));
	FAILS_NULL(ibv_open_device, (NULL));
	FAILS_NULL(ibv_alloc_dmah, (ctx, NULL));
	FAILS_ERRNO(ibv_dealloc_dmah, (NULL));
	struct dmah *dmah = SUCCEEDS(ibv_alloc_dmah, (ctx, &(struct dmah_attr){.comp_mask = 0}), != NULL);

	SUCCEEDS(ibv_dealloc_dmah, (dmah), == 0);
	FAILS_ERRNO(ibv_query_port_speed, (ctx, 2, &(uint64_t){0}));
	SUCCEEDS(ibv_query_port_speed, (ctx, 1, &(uint64_t){0}), == 0);
	FAILS_NULL(ibv_import_device, (0));
	SUCCEEDS(ibv_fork_init, (), == 0);
	SUCCEEDS(ibv_is_fork_initialized, (), == IBV_FORK_UNNEEDED);
	SUCCEEDS(ibv_dontfork_range, (buf, 4096), == 0);
	SUCCEEDS(ibv_dofork_range, (buf, 4096), == 0);
}

/* The first of these loads the engine. */
static void domains(void)
{
	pd = SUCCEEDS(ibv_alloc_pd, (ctx), != NULL);
	struct ibv_mr *held;

	FAILS_NULL(ibv_alloc_pd, (NULL));
	held = SUCCEEDS(ibv_reg_mr, (pd, buf, BYTES, ALL_ACCESS), != NULL);
	FAILS_ERRNO(ibv_dealloc_pd, (pd)); /* EBUSY */
	SUCCEEDS(ibv_dereg_mr, (held), == 0);
	SUCCEEDS(ibv_dealloc_pd, (pd), == 0);
	pd = SUCCEEDS(ibv_alloc_pd, (ctx), != NULL);

	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = SUCCEEDS(ibv_alloc_td, (ctx, &td_attr), != NULL);
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent = SUCCEEDS(ibv_alloc_parent_domain, (ctx, &attr), != NULL);

	FAILS_ERRNO(ibv_dealloc_td, (td));
	FAILS_NULL(ibv_alloc_parent_domain, (ctx, NULL));
	SUCCEEDS(ibv_dealloc_pd, (parent), == 0);
	SUCCEEDS(ibv_dealloc_td, (td), == 0);
	td_attr.comp_mask = 1;
	FAILS_NULL(ibv_alloc_td, (ctx, &td_attr));
	FAILS_NULL(ibv_import_pd, (ctx, UINT32_MAX));
	DOES(ibv_unimport_pd, (NULL));

	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = SUCCEEDS(ibv_open_xrcd, (ctx, &x), != NULL);

	SUCCEEDS(ibv_close_xrcd, (xrcd), == 0);
	x.fd = 9999;
	FAILS_NULL(ibv_open_xrcd, (ctx, &x));
}

static void regions(void)
{
	mr = SUCCEEDS(ibv_reg_mr, (pd, buf, BYTES, ALL_ACCESS), != NULL);
	FAILS_NULL(ibv_reg_mr, (pd, buf, BYTES, NO_ACCESS));
	struct ibv_mr *other = SUCCEEDS(ibv_reg_mr_iova, (pd, buf, 100, 0x1000, 0), != NULL);

	FAILS_NULL(ibv_reg_mr_iova, (pd, buf, 100, 0x1000, NO_ACCESS));
	SUCCEEDS(ibv_rereg_mr, (other, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 200, 0), == 0);
	FAILS_MINUS(ibv_rereg_mr, (other, 0, NULL, NULL, 0, 0));
	SUCCEEDS(ibv_dereg_mr, (other), == 0);
	other = SUCCEEDS(ibv_reg_mr_iova2, (pd, buf, 100, 0x1000, IBV_ACCESS_RELAXED_ORDERING), != NULL);
	FAILS_NULL(ibv_reg_mr_iova2, (pd, (void *)4096, 100, 0x1000, 0)); /* EFAULT */
	SUCCEEDS(ibv_dereg_mr, (other), == 0);
	FAILS_ERRNO(ibv_dereg_mr, (NULL));
	FAILS_NULL(ibv_reg_dmabuf_mr, (pd, 0, 4096, 0, -1, 0));
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	MUST(!ftruncate(fd, 4096));
	other = SUCCEEDS(ibv_reg_dmabuf_mr, (pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE), != NULL);
	SUCCEEDS(ibv_dereg_mr, (other), == 0);
	close(fd);
	FAILS_NULL(ibv_import_mr, (pd, UINT32_MAX));
	DOES(ibv_unimport_mr, (NULL));
	FAILS_NULL(ibv_import_dm, (ctx, UINT32_MAX));
	DOES(ibv_unimport_dm, (NULL));

	struct {
		size_t length;
		int access;
		uint64_t comp_mask, iova;
		void *addr;
	} by_address = {.length = 100, .comp_mask = 2, .addr = buf};
	void *handle;

	char *at = SUCCEEDS(ibv_alloc_buf, (pd, 100, &handle), != NULL);

	FAILS_NULL(ibv_alloc_buf, (pd, (size_t)-1, &handle));
	other = SUCCEEDS(ibv_reg_buf_mr, (pd, handle, at, 100, 0), != NULL);
	FAILS_NULL(ibv_reg_buf_mr, (pd, handle, at, 101, 0));
	SUCCEEDS(ibv_dereg_mr, (other), == 0);
	DOES(ibv_free_buf, (handle));
	other = SUCCEEDS(ibv_reg_mr_ex, (pd, &by_address), != NULL);
	FAILS_NULL(ibv_reg_mr_ex, (pd, NULL));
	SUCCEEDS(ibv_dereg_mr, (other), == 0);

	struct ibv_mw *mw = SUCCEEDS(ibv_alloc_mw, (pd, IBV_MW_TYPE_1), != NULL);

	SUCCEEDS(ibv_dealloc_mw, (mw), == 0);
	FAILS_NULL(ibv_alloc_mw, (pd, (enum ibv_mw_type)77));
}

static void queries(void)
{
	struct ibv_gid_entry entry, entries[256];
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	char text[256];
	__be16 pkey;

	SUCCEEDS(ibv_query_device, (ctx, &attr), == 0);
	FAILS_ERRNO(ibv_query_device, (ctx, NULL));
	SUCCEEDS(ibv_query_device_ex, (ctx, NULL, &ex), == 0);
	SUCCEEDS(ibv_query_port, (ctx, PORT, (void *)&port), == 0);
	FAILS_ERRNO(ibv_query_port, (ctx, 9, (void *)&port));
	SUCCEEDS(___ibv_query_port, (ctx, PORT, &port), == 0); /* the macro calls it */
	FAILS_ERRNO(___ibv_query_port, (ctx, 9, &port));
	SUCCEEDS(ibv_query_gid, (ctx, PORT, 0, &gid), == 0);
	FAILS_MINUS(ibv_query_gid, (ctx, PORT, 1000, &gid));
	SUCCEEDS(_ibv_query_gid_ex, (ctx, PORT, 0, &entry, 0, sizeof(entry)), == 0);
	FAILS_ERRNO(_ibv_query_gid_ex, (ctx, PORT, 200, &entry, 0, sizeof(entry)));
	SUCCEEDS(_ibv_query_gid_table, (ctx, entries, 256, 0, sizeof(entry)), > 0);
	FAILS_NEGATIVE(_ibv_query_gid_table, (ctx, NULL, 256, 0, sizeof(entry)));
	SUCCEEDS(ibv_query_pkey, (ctx, PORT, 0, &pkey), == 0);
	FAILS_MINUS(ibv_query_pkey, (ctx, PORT, 99, &pkey));
	SUCCEEDS(ibv_get_pkey_index, (ctx, PORT, pkey), == 0);
	FAILS_MINUS(ibv_get_pkey_index, (ctx, PORT, 1));
	SUCCEEDS(ibv_get_sysfs_path, (), != NULL);
	snprintf(text, sizeof(text), "%s", ctx->device->ibdev_path);
	SUCCEEDS(ibv_read_sysfs_file, (ctx->device->ibdev_path, "ports/1/gids/0", text, sizeof(text)), > 0);
	FAILS_MINUS(ibv_read_sysfs_file, (ctx->device->ibdev_path, "nosuch", text, sizeof(text)));
	SUCCEEDS(ibv_read_sysfs_file, ("/proc/sys/kernel", "ostype", text, sizeof(text)), > 0);
	FAILS_MINUS(ibv_read_sysfs_file, ("/proc/sys/kernel", "nosuch", text, sizeof(text)));
}

static void words(void)
{
	struct ib_uverbs_ah_attr kernel_ah = {0};
	struct ib_uverbs_qp_attr kernel_qp = {0};
	struct ib_user_path_rec kernel_path = {0};
	struct ibv_sa_path_rec path = {0};
	struct ibv_ah_attr ah;
	struct ibv_qp_attr qp;

	SUCCEEDS(ibv_node_type_str, (IBV_NODE_CA), != NULL);
	SUCCEEDS(ibv_port_state_str, (IBV_PORT_ACTIVE), != NULL);
	SUCCEEDS(ibv_event_type_str, (IBV_EVENT_QP_FATAL), != NULL);
	SUCCEEDS(ibv_wc_status_str, (IBV_WC_SUCCESS), != NULL);
	SUCCEEDS(ibv_rate_to_mult, (IBV_RATE_5_GBPS), == 2);
	SUCCEEDS(ibv_rate_to_mbps, (IBV_RATE_5_GBPS), == 5000);
	SUCCEEDS(mult_to_ibv_rate, (2), == IBV_RATE_5_GBPS);
	SUCCEEDS(mbps_to_ibv_rate, (5000), == IBV_RATE_5_GBPS);
	DOES(ibv_copy_ah_attr_from_kern, (&ah, &kernel_ah));
	DOES(ibv_copy_qp_attr_from_kern, (&qp, &kernel_qp));
	DOES(ibv_copy_path_rec_from_kern, (&path, &kernel_path));
	DOES(ibv_copy_path_rec_to_kern, (&kernel_path, &path));
}

static void completion_queues(void)
{
	struct ibv_comp_channel *channel = SUCCEEDS(ibv_create_comp_channel, (ctx), != NULL);
	struct ibv_cq *cq = SUCCEEDS(ibv_create_cq, (ctx, 10, NULL, channel, 0), != NULL), *of;
	struct ibv_cq_init_attr_ex attr = {.cqe = 10};
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_wc wc;
	void *context;

	FAILS_NULL(ibv_create_comp_channel, (NULL));
	FAILS_NULL(ibv_create_cq, (ctx, 0, NULL, NULL, 0));
	FAILS_NULL(ibv_create_cq, (ctx, 10, NULL, NULL, 7));
	FAILS_ERRNO(ibv_destroy_comp_channel, (channel));
	SUCCEEDS(ibv_resize_cq, (cq, 20), == 0);
	FAILS_ERRNO(ibv_resize_cq, (cq, -1));
	for (int i = 0; i < 300; i++) /* now and then a poll reads the network */
		SUCCEEDS(ibv_poll_cq, (cq, 1, &wc), == 0);
	SUCCEEDS(ibv_req_notify_cq, (cq, 0), == 0);
	MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	FAILS_MINUS(ibv_get_cq_event, (channel, &of, &context));
	DOES(ibv_ack_cq_events, (cq, 0));
	SUCCEEDS(ibv_destroy_cq, (cq), == 0);
	FAILS_ERRNO(ibv_destroy_cq, (NULL));
	SUCCEEDS(ibv_destroy_comp_channel, (channel), == 0);

	struct ibv_cq_ex *ex = SUCCEEDS(ibv_create_cq_ex, (ctx, &attr), != NULL);

	FAILS_ERRNO(ibv_start_poll, (ex, &poll)); /* ENOENT */
	SUCCEEDS(ibv_destroy_cq, (ibv_cq_ex_to_cq(ex)), == 0);
	attr.comp_mask = 1 << 20;
	FAILS_NULL(ibv_create_cq_ex, (ctx, &attr));
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 1}};
	struct ibv_srq *srq = SUCCEEDS(ibv_create_srq, (pd, &attr), != NULL);
	struct ibv_srq_init_attr_ex ex = {.attr = attr.attr, .pd = pd, .comp_mask = IBV_SRQ_INIT_ATTR_PD};
	struct ibv_recv_wr wr = {0}, *bad;
	uint32_t num;

	FAILS_NULL(ibv_create_srq, (pd, NULL));
	SUCCEEDS(ibv_post_srq_recv, (srq, &wr, &bad), == 0);
	wr.num_sge = 9;
	FAILS_ERRNO(ibv_post_srq_recv, (srq, &wr, &bad));
	SUCCEEDS(ibv_modify_srq, (srq, &(struct ibv_srq_attr){.srq_limit = 3}, IBV_SRQ_LIMIT), == 0);
	FAILS_ERRNO(ibv_modify_srq, (srq, &(struct ibv_srq_attr){.srq_limit = 1 << 30}, IBV_SRQ_LIMIT));
	SUCCEEDS(ibv_query_srq, (srq, &attr.attr), == 0);
	FAILS_ERRNO(ibv_query_srq, (srq, NULL));
	FAILS_ERRNO(ibv_get_srq_num, (srq, &num));
	SUCCEEDS(ibv_destroy_srq, (srq), == 0);
	FAILS_ERRNO(ibv_destroy_srq, (NULL));
	srq = SUCCEEDS(ibv_create_srq_ex, (ctx, &ex), != NULL);
	SUCCEEDS(ibv_destroy_srq, (srq), == 0);
	ex.comp_mask = 1 << 20;
	FAILS_NULL(ibv_create_srq_ex, (ctx, &ex));

	struct ibv_cq *cq = SUCCEEDS(ibv_create_cq, (ctx, 10, NULL, NULL, 0), != NULL);
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC}, *bad_op;

	ex = (struct ibv_srq_init_attr_ex){.attr = attr.attr, .pd = pd, .cq = cq, .srq_type = IBV_SRQT_TM, .tm_cap = {4, 4},
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM};
	srq = SUCCEEDS(ibv_create_srq_ex, (ctx, &ex), != NULL);
	SUCCEEDS(ibv_post_srq_ops, (srq, &op, &bad_op), == 0);
	op.flags = 1 << 20;
	FAILS_ERRNO(ibv_post_srq_ops, (srq, &op, &bad_op));
	SUCCEEDS(ibv_destroy_srq, (srq), == 0);
	SUCCEEDS(ibv_destroy_cq, (cq), == 0);
}

static void address_handles(void)
{
	struct ibv_ah_attr attr = address(ctx);
	struct ibv_ah *ah = SUCCEEDS(ibv_create_ah, (pd, &attr), != NULL);
	struct ibv_grh grh = {.version_tclass_flow = htonl(6u << 28), .next_hdr = IPPROTO_UDP, .dgid.raw = {0x20}};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	uint8_t mac[6];

	FAILS_NULL(ibv_create_ah, (pd, NULL));
	SUCCEEDS(ibv_resolve_eth_l2_from_gid, (ctx, &attr, mac, NULL), == 0);
	SUCCEEDS(ibv_destroy_ah, (ah), == 0);
	FAILS_ERRNO(ibv_destroy_ah, (NULL));
	FAILS_MINUS(ibv_init_ah_from_wc, (ctx, PORT, &wc, &grh, &attr)); /* no GID of the table */
	FAILS_NULL(ibv_create_ah_from_wc, (pd, &wc, &grh, PORT));
	/* The datagram came from and to the loopback address. */
	MUST(ibv_query_gid(ctx, PORT, gid_index(ctx), &grh.sgid) == 0);
	grh.dgid = grh.sgid;
	SUCCEEDS(ibv_init_ah_from_wc, (ctx, PORT, &wc, &grh, &attr), == 0);
	ah = SUCCEEDS(ibv_create_ah_from_wc, (pd, &wc, &grh, PORT), != NULL);
	SUCCEEDS(ibv_destroy_ah, (ah), == 0);
	attr.port_num = 9;
	FAILS_NEGATIVE(ibv_resolve_eth_l2_from_gid, (ctx, &attr, mac, NULL));
}

static void connect_itself(struct ibv_qp *qp)
{
	to_init(qp);
	to_rtr(qp, qp->qp_num);
	to_rts(qp);
}

static void counters(struct ibv_context *ctx, struct ibv_qp *qp)
{
	struct cntr_attach_attr attr = {.op_mask = CNTR_SEND};
	struct cntr_init_attr init = {0};
	struct cntr_caps caps;
	struct cntr *cntr;
	uint64_t value;

	SUCCEEDS(_ibv_query_comp_cntr_caps, (ctx, &caps, sizeof(caps)), == 0);
	FAILS_ERRNO(_ibv_query_comp_cntr_caps, (ctx, NULL, 0));
	FAILS_NULL(ibv_create_comp_cntr, (ctx, NULL));
	cntr = SUCCEEDS(ibv_create_comp_cntr, (ctx, &init), != NULL);
	FAILS_ERRNO(ibv_qp_attach_comp_cntr, (qp, cntr, NULL));
	FAILS_ERRNO(ibv_read_comp_cntr, (cntr, NULL));
	FAILS_ERRNO(ibv_read_err_comp_cntr, (cntr, NULL));
	FAILS_ERRNO(ibv_set_comp_cntr, (NULL, 1));
	FAILS_ERRNO(ibv_set_err_comp_cntr, (NULL, 1));
	FAILS_ERRNO(ibv_inc_comp_cntr, (NULL, 1));
	FAILS_ERRNO(ibv_inc_err_comp_cntr, (NULL, 1));
	SUCCEEDS(ibv_set_comp_cntr, (cntr, 1), == 0);
	SUCCEEDS(ibv_set_err_comp_cntr, (cntr, 1), == 0);
	SUCCEEDS(ibv_inc_comp_cntr, (cntr, 1), == 0);
	SUCCEEDS(ibv_inc_err_comp_cntr, (cntr, 1), == 0);
	SUCCEEDS(ibv_read_comp_cntr, (cntr, &value), == 0);
	SUCCEEDS(ibv_read_err_comp_cntr, (cntr, &value), == 0);
	SUCCEEDS(ibv_destroy_comp_cntr, (cntr), == 0);
	FAILS_ERRNO(ibv_destroy_comp_cntr, (NULL));
	MUST(cntr = ibv_create_comp_cntr(ctx, &init));
	SUCCEEDS(ibv_qp_attach_comp_cntr, (qp, cntr, &attr), == 0);
}

static void queue_pairs(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_init_attr_ex ex;
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 8, .lkey = mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1}, *bad_send;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_RTR};
	struct ibv_async_event event = {0};
	struct ibv_cq *cq, *of;
	struct ibv_ece ece = {0};
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	void *context;
	struct ibv_wc wc;
	int n;

	MUST(channel && (cq = ibv_create_cq(ctx, 100, NULL, channel, 0)));
	FAILS_NULL(ibv_create_qp, (pd, &attr)); /* no completion queue */
	attr.send_cq = attr.recv_cq = cq;
	qp = SUCCEEDS(ibv_create_qp, (pd, &attr), != NULL);
	FAILS_ERRNO(ibv_destroy_cq, (cq));
	FAILS_ERRNO(ibv_modify_qp, (qp, &state, IBV_QP_STATE));
	SUCCEEDS(ibv_query_qp, (qp, &state, 0, &attr), == 0);
	FAILS_ERRNO(ibv_query_qp, (qp, NULL, 0, NULL));
	FAILS_NULL(ibv_qp_to_qp_ex, (qp));
	FAILS_ERRNO(ibv_set_ece, (qp, &ece));
	FAILS_ERRNO(ibv_query_ece, (qp, &ece));
	SUCCEEDS(ibv_query_qp_data_in_order, (qp, IBV_WR_RDMA_WRITE, 0), == 0);
	FAILS_ERRNO(ibv_post_recv, (qp, &recv, &bad_recv));
	FAILS_ERRNO(ibv_post_send, (qp, &send, &bad_send));
	counters(ctx, qp);
	connect_itself(qp);
	SUCCEEDS(ibv_modify_qp, (qp, &(struct ibv_qp_attr){.min_rnr_timer = 3}, IBV_QP_MIN_RNR_TIMER), == 0);
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	SUCCEEDS(ibv_post_recv, (qp, &recv, &bad_recv), == 0);
	SUCCEEDS(ibv_post_send, (qp, &send, &bad_send), == 0);
	SUCCEEDS(ibv_get_cq_event, (channel, &of, &context), == 0);
	DOES(ibv_ack_cq_events, (cq, 1));
	for (int left = 2; left > 0; left -= n)
		n = SUCCEEDS(ibv_poll_cq, (cq, 1, &wc), >= 0);
	MUST(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = {.mr = mr, .addr = (uintptr_t)buf, .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	SUCCEEDS(ibv_bind_mw, (qp, mw, &bind), == 0);
	WANT_WC(cq, 1, IBV_WC_SUCCESS);
	MUST(ibv_dealloc_mw(mw) == 0);
	FAILS_ERRNO(ibv_attach_mcast, (qp, &(union ibv_gid){0}, 0));
	FAILS_ERRNO(ibv_detach_mcast, (qp, &(union ibv_gid){0}, 0));
	SUCCEEDS(ibv_modify_qp, (qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), == 0);
	SUCCEEDS(ibv_post_recv, (qp, &recv, &bad_recv), == 0); /* flushed by the engine */
	SUCCEEDS(ibv_destroy_qp, (qp), == 0);
	FAILS_ERRNO(ibv_destroy_qp, (NULL));

	ex = (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_UD, .cap = attr.cap, .send_cq = cq, .recv_cq = cq, .pd = pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					  .send_ops_flags = IBV_QP_EX_WITH_SEND};
	qp = SUCCEEDS(ibv_create_qp_ex, (ctx, &ex), != NULL);
	struct ibv_qp_ex *qpx = SUCCEEDS(ibv_qp_to_qp_ex, (qp), != NULL);
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 239, 1, 2, 3}};

	DOES(ibv_wr_start, (qpx));
	DOES(ibv_wr_send, (qpx));
	FAILS_ERRNO(ibv_wr_complete, (qpx)); /* in RESET */
	to_init(qp);
	SUCCEEDS(ibv_attach_mcast, (qp, &group, 0), == 0);
	SUCCEEDS(ibv_detach_mcast, (qp, &group, 0), == 0);
	FAILS_ERRNO(ibv_detach_mcast, (qp, &group, 0));
	SUCCEEDS(ibv_destroy_qp, (qp), == 0);
	ex.send_cq = NULL;
	FAILS_NULL(ibv_create_qp_ex, (ctx, &ex));
	FAILS_NULL(ibv_open_qp, (ctx, &(struct ibv_qp_open_attr){0}));

	/* A shared queue below its limit: an event. */
	MUST(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	while (ibv_get_async_event(ctx, &event) == 0)
		ibv_ack_async_event(&event);
	FAILS_MINUS(ibv_get_async_event, (ctx, &event));
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};

	MUST(attr.srq = ibv_create_srq(pd, &srq_attr));
	MUST(qp = ibv_create_qp(pd, &attr));
	connect_itself(qp);
	MUST(ibv_post_srq_recv(attr.srq, &recv, &bad_recv) == 0);
	MUST(ibv_modify_srq(attr.srq, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT) == 0);
	MUST(ibv_post_send(qp, &send, &bad_send) == 0);
	MUST(wait_wc(cq, &wc) == 1 && wait_wc(cq, &wc) == 1);
	do {
		MUST(readable(ctx->async_fd, PATIENCE_MS));
		SUCCEEDS(ibv_get_async_event, (ctx, &event), == 0);
		DOES(ibv_ack_async_event, (&event));
	} while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
	FAILS_ERRNO(ibv_destroy_srq, (attr.srq)); /* EBUSY */
	SUCCEEDS(ibv_destroy_qp, (qp), == 0);
	SUCCEEDS(ibv_destroy_srq, (attr.srq), == 0);
	SUCCEEDS(ibv_destroy_cq, (cq), == 0);
	SUCCEEDS(ibv_destroy_comp_channel, (channel), == 0);
}

int main(void)
{
	MUST(buf = aligned_alloc(4096, BYTES));
	memset(buf, 0, BYTES);
	devices();
	queries();
	words();
	domains();
	queries(); /* with an engine */
	regions();
	completion_queues();
	shared_receives();
	address_handles();
	queue_pairs();
	SUCCEEDS(ibv_dereg_mr, (mr), == 0);
	SUCCEEDS(ibv_dealloc_pd, (pd), == 0);
	SUCCEEDS(ibv_close_device, (ctx), == 0);
	return wrong || failures;
}
