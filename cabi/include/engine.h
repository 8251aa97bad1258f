/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between the front libraries (libibverbs.so.1, librdmacm.so.1: C) and the engine
 * (libverbena-engine.so: Go).
 *
 * The front owns every structure that an application sees, its locks, its descriptors, and the
 * memory of completion and receive queues. The engine owns protocols, keys and sockets, and names
 * its objects by handles. The front opens the engine with dlopen at the first object that needs it,
 * and calls it through one table of functions, verbena_engine.
 *
 * Unless said otherwise a function returns 0 or a positive errno, and changes nothing when it
 * fails. It may be called from any thread at any time, does not block on the network and keeps no
 * pointer that it was given.
 */
#ifndef VERBENA_ENGINE_H
#define VERBENA_ENGINE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine_version.h" /* VB_ENGINE_VERSION: a hash of the declarations */

/* A handle names an object of the engine. 0 names none. */
typedef uint64_t vb_handle;

/*
 * A cookie names an object of the front. Each number is given out once, so that an event of a
 * destroyed object finds none.
 */
typedef uint64_t vb_cookie;

/*
 * A completion as the engine writes it: ib.WC. Its numbers are those of the specification and of
 * enum ibv_wc_status, ibv_wc_opcode and ibv_wc_flags.
 */
struct vb_wc {
	uint64_t wr_id;
	uint8_t status;
	uint8_t opcode; /* ib.WCOpcode */
	uint8_t flags;	/* ib.WCFlags */
	uint8_t pad0;
	uint16_t vendor_err;
	uint16_t pad1;
	uint32_t byte_len;
	uint32_t imm_data; /* as a number: host byte order */
	uint32_t invalidated_rkey;
	uint32_t qp_num;
	uint32_t src_qp;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t pad2[3];
	uint32_t tag_high; /* with IBV_WC_TM_MATCH: see vb_wc_tag */
};
_Static_assert(sizeof(struct vb_wc) == 48, "struct vb_wc is laid out as ib.WC");

/* When a completion was pushed: by vb_engine.clock, and in nanoseconds since 1970. */
struct vb_wc_time {
	uint64_t device;
	uint64_t wallclock;
};

/*
 * The memory of a completion queue. The engine pushes at tail, with a lock of the engine held. The
 * front polls at head, with a lock of the front held and without a call. Entry i is slots[i &
 * mask]. head and tail only grow.
 *
 * The engine moves head where it removes completions from the middle: qp_destroy, qp_modify to
 * RESET, cq_resize. Around these calls the front holds the poll locks of the queues concerned.
 */
struct vb_cq_ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t overrun; /* a completion was lost: polling fails */
	_Alignas(64) uint64_t mask;
	struct vb_wc *slots; /* mask + 1 of them; of a timed queue as many struct vb_wc_time follow */
};

/*
 * The memory of a receive queue. The front posts at tail, with a lock of the front held and without
 * a call. The engine takes at head, when a message or a flush needs a receive. head and tail only
 * grow, and tail - head is at most the size of the queue. So a wrong key is found when the receive
 * is used, as with an adapter.
 *
 * Receive i is in slot i & mask. A slot has 1 + max_sge elements. The first describes the receive:
 * addr is the wr_id, length the total bytes, lkey the number of elements.
 *
 * The front reads posting before it posts, and again after it has stored tail; all these accesses
 * are sequentially consistent. If the second value is not VB_RECV_FREE the front calls
 * qp_recvs_posted: the queue pair is in the error state, where receives are flushed, or has entered
 * it meanwhile.
 */
enum vb_posting {
	VB_RECV_REFUSED, /* EINVAL: the queue pair is in RESET, or gone */
	VB_RECV_FREE,
	VB_RECV_NOTIFY,
};

struct vb_recv_ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint32_t posting; /* enum vb_posting */
};

/*
 * The ring of a receive queue with room for cap.max_recv_wr or attr.max_wr receives, and its slots:
 * mask + 1, a power of two. They stay in place until the queue is destroyed. A front that does not
 * post leaves ring NULL.
 */
struct vb_recv_memory {
	struct vb_recv_ring *ring;
	struct ibv_sge *slots;
	uint64_t mask;
};

/*
 * A notification board that the engine shares with the front. Each of the first entries watches the
 * word at data + (next & mask). If it is not 0, packets of another process of this host are
 * pending, and progress is worth a call; the engine moves next on. data is 0 where there is nothing
 * to look at. Memory that was ever mapped at data stays mapped.
 *
 * While suffices is 0 the board does not show everything, and progress is called as often as
 * without a board. The front counts its polls, so that the engine sees that a thread polls.
 */
struct vb_board {
	_Atomic uint32_t suffices;
	_Atomic uint32_t entries;
	uint64_t mask;
	_Alignas(64) _Atomic uint64_t polls;
	_Alignas(64) struct {
		_Atomic uintptr_t data;
		_Atomic uint64_t next;
	} at[];
};

/* The next step of the application after ibv_req_notify_cq. */
enum vb_arm {
	VB_ARM_ONLY,   /* unknown */
	VB_ARM_SLEEPS, /* it may poll the channel's descriptor, as after cq_sleep */
	VB_ARM_POLLS,  /* it polls until it finds nothing, and then cq_sleep is called */
};

/* The next step of a thread that finds no event in a completion channel. */
enum vb_take {
	VB_TAKE_SERVE = 0, /* unknown: threads of the engine read from now on */
	VB_TAKE_WATCH = 1, /* it may poll the channel's descriptor, which shows arrivals */
	VB_TAKE_WAIT = 2,  /* it waits for arrivals and the eventfd; then it calls with: */
	VB_TAKE_WOKEN = 4, /* a flag: the thread has waited */
	VB_TAKE_LEAVE = 8, /* another thread polls, and reads arriving packets */
	VB_TAKE_AGAIN = 16, /* a flag: the thread has gone on after EINPROGRESS */
};

/* The record of an asynchronous event in the pipe of a context. */
struct vb_async_event {
	uint32_t type; /* enum ibv_event_type */
	uint32_t port; /* for port events */
	/* Queue pair, completion queue, SRQ or work queue; 0 for events of a port or the device. */
	vb_cookie object;
};

/*
 * Objects of the front that work requests point to. The engine reads the handle behind the public
 * structure.
 */
struct vb_ah {
	struct ibv_ah ah;
	vb_handle handle;
};

struct vb_mr {
	struct ibv_mr mr; /* first, as in struct verbs_mr */
	vb_handle handle;
};

struct vb_mw {
	struct ibv_mw mw;
	vb_handle handle;
};

/*
 * A FLUSH (ibv_wr_flush of rdma-core 64) as a struct ibv_send_wr. It has this opcode. wr.atomic has
 * remote_addr, rkey, the length as compare_add, and as swap the type, with the level in bits 8 to
 * 15.
 */
#define VB_WR_FLUSH ((enum ibv_wr_opcode)14)

struct vb_qp_init {
	enum ibv_qp_type type; /* RC, UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV */
	int sq_sig_all;
	struct ibv_qp_cap cap; /* in and out: the granted values */
	vb_handle pd, send_cq, recv_cq, srq, xrcd; /* 0 where there is none */
	vb_cookie cookie; /* in asynchronous events */
	struct vb_recv_memory recv; /* ignored with an srq, or a type without receives */
};

struct vb_srq_init {
	struct ibv_srq_attr attr; /* in and out */
	vb_handle pd;
	vb_handle xrcd, cq; /* both for an XRC SRQ, cq for one that matches tags; else 0 */
	uint32_t max_num_tags, max_ops; /* of one that matches tags, else 0 */
	vb_cookie cookie;
	struct vb_recv_memory recv;
};

/*
 * A connection manager event. The engine allocates it with malloc and writes its pointer (8 bytes)
 * into the pipe of the event channel; the front frees it.
 *
 * id is the identifier of the event. For RDMA_CM_EVENT_CONNECT_REQUEST it is the listener, and
 * new_id a new identifier, which the front gives a cookie with cm_id_adopt. new_id has no further
 * event until the front has accepted the request. The front drops an event of an identifier that
 * was destroyed meanwhile, and its new_id.
 */
struct vb_cm_event {
	vb_cookie id;
	vb_handle new_id;
	vb_cookie context; /* of cm_join, in MULTICAST_JOIN and _ERROR */
	uint32_t type;	 /* enum rdma_cm_event_type */
	int32_t status;	 /* 0, a negative errno, or for REJECTED the reason */
	struct ibv_ece ece; /* the peer's, in CONNECT_REQUEST and CONNECT_RESPONSE */
	int is_ud;
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
		uint64_t arg; /* of rdma_write_cm_event, which makes events without the engine */
	} param; /* private_data points to priv, or is NULL */
	uint8_t priv[256];
};

/*
 * The addresses and the route of an identifier. device is NUL-terminated, and empty while unbound.
 */
struct vb_cm_route {
	struct sockaddr_storage src, dst;
	char device[64];
	uint8_t port_num;
	uint8_t gid_index;
	union ibv_gid sgid, dgid;
	uint16_t pkey;
	uint8_t mtu; /* enum ibv_mtu of the path; 0 before the route is resolved */
	uint8_t packet_life_time;
	uint8_t traffic_class;
	int have_path;
};

/* The present state of an NTB link, which is a device. */
struct vb_link {
	uint64_t guid;
	union ibv_gid gids[2]; /* the second may be :: */
	int active; /* open, and its peer has not left */
};

/*
 * The functions of the engine. cabi/gen reads them here and writes table.c, and for each a function
 * that cgo exports (cabi/engine/exports.go). The comment behind an entry names a call. qp_modify,
 * for example, calls qpObject.modify(attr, mask) of the object behind the handle qp. It refuses a
 * handle that names nothing with EINVAL, and turns an error into an errno, with the call's name in
 * messages. After "ends qp" the handle names nothing once the call has succeeded. After "takes ctx"
 * it names nothing from the beginning, even if the call fails. Entries without a comment behind
 * them are exported by hand.
 */
struct vb_engine {
	uint32_t version; /* VB_ENGINE_VERSION */

	/* -- process ------------------------------------------------------- */

	/*
	 * Writes up to max of the engine's descriptors, which a forked child must close, and
	 * returns how many there are.
	 */
	int (*descriptors)(int *fds, int max);

	/* -- NTB links -------------------------------------------------------- */

	/*
	 * Writes up to max of the links that VERBENA_NTB names, from number first on, and
	 * into *count how many there are in all.
	 */
	int (*links)(struct vb_link *list, uint32_t first, uint32_t max,
		     uint32_t *count); /* ibv_get_device_list */

	/* -- management datagrams -------------------------------------------- */

	/*
	 * Serves the umad file of a device. The application has fd, a socket, and the engine its
	 * peer, which it closes, also if the call fails.
	 */
	int (*umad_open)(const char *device, int fd, int peer); /* open */
	int (*umad_ioctl)(int fd, uint64_t request, void *arg); /* ioctl */

	/* -- context, by the device's name ---------------------------------- */

	int (*ctx_open)(const char *device, int async_fd, vb_handle *ctx); /* ibv_open_device */
	int (*ctx_close)(vb_handle ctx); /* ibv_close_device, takes ctx */
	int (*ctx_violations)(vb_handle ctx, uint32_t *bad_pkey, uint32_t *qkey); /* ibv_query_port */
	/* Returns the board that shows pending work, or NULL. It stays mapped for ever. */
	int (*board)(vb_handle ctx, struct vb_board **board); /* ibv_create_cq */
	/* Says that the application is about to sleep: the engine's own threads read from now on. */
	void (*wake)(vb_handle ctx);

	/* -- domains and memory --------------------------------------------- */

	int (*pd_alloc)(vb_handle ctx, vb_handle *pd); /* ibv_alloc_pd */
	int (*pd_free)(vb_handle pd); /* ibv_dealloc_pd, ends pd */
	int (*xrcd_open)(vb_handle ctx, int fd, int oflags, vb_handle *xrcd); /* ibv_open_xrcd */
	int (*xrcd_close)(vb_handle xrcd); /* ibv_close_xrcd, ends xrcd */
	int (*mr_reg)(vb_handle pd, void *addr, size_t length, uint64_t iova, uint32_t access,
		      vb_handle *mr, uint32_t *lkey, uint32_t *rkey); /* ibv_reg_mr */
	int (*mr_null)(vb_handle pd, vb_handle *mr, uint32_t *lkey); /* ibv_alloc_null_mr */
	/* flags is enum ibv_rereg_mr_flags. */
	int (*mr_rereg)(vb_handle mr, int flags, vb_handle pd, void *addr, size_t length,
			uint32_t access, uint32_t *lkey, uint32_t *rkey); /* ibv_rereg_mr */
	int (*mr_dereg)(vb_handle mr); /* ibv_dereg_mr, ends mr */
	/* advice is enum ib_uverbs_advise_mr_advice. Blocks until the pages are in memory. */
	int (*mr_advise)(vb_handle pd, unsigned advice, struct ibv_sge *sgl,
			 uint32_t n); /* ibv_advise_mr */
	int (*mw_alloc)(vb_handle pd, enum ibv_mw_type mw_type, vb_handle *mw,
			uint32_t *rkey); /* ibv_alloc_mw */
	int (*mw_free)(vb_handle mw); /* ibv_dealloc_mw, ends mw */

	/* -- completion queues ----------------------------------------------- */

	/*
	 * Makes the engine's part of a completion channel. event_fd is an eventfd, readable while there
	 * are events. bell and sockets are descriptors of the engine. One of them becomes readable with
	 * an arrival (VB_TAKE_WATCH, VB_TAKE_WAIT).
	 */
	int (*channel_open)(vb_handle ctx, int event_fd, vb_handle *comp, int *bell,
			    int *sockets); /* ibv_create_cq */
	int (*channel_close)(vb_handle comp); /* ibv_destroy_comp_channel, ends comp */
	/*
	 * Takes the next event, the cookie of its completion queue. If there is none it reads the
	 * network; if there is still none it returns EAGAIN. *kept says that the event was there
	 * before. Without VB_TAKE_AGAIN it returns EINPROGRESS, before it does what how says, where it
	 * has read packets without an event: the next ones may come at once.
	 */
	int (*channel_take)(vb_handle comp, enum vb_take how, vb_cookie *cookie, int *kept);
	/* Ends VB_TAKE_WAIT without VB_TAKE_WOKEN. */
	void (*channel_unwait)(vb_handle comp);
	/* Ends VB_TAKE_WATCH. Reads the network. */
	void (*channel_unwatch)(vb_handle comp);
	/* Reads the device's clock: nanoseconds. */
	void (*clock)(uint64_t *ns);
	/* comp is 0 where there is no channel. A timed queue stores the times of completions. */
	int (*cq_create)(vb_handle ctx, int depth, struct vb_cq_ring *ring, int timed, vb_handle comp,
			 vb_cookie cookie, vb_handle *cq); /* ibv_create_cq */
	/*
	 * Reads the network for a queue without blocking. The front calls it at some of the polls
	 * that find nothing; the call counts as that many polls.
	 */
	void (*progress)(vb_handle cq, unsigned polls);
	/*
	 * Announces that a thread that polls is about to wait for arrivals. It returns 0 if something
	 * has come already. Otherwise one of the descriptors becomes readable with an arrival, and
	 * nap_end ends the wait and reads.
	 */
	int (*nap_begin)(vb_handle cq, int *bell, int *sockets);
	void (*nap_end)(vb_handle cq);
	/* Moves the ring's completions to slots (mask + 1 of them) and changes the ring. */
	int (*cq_resize)(vb_handle cq, int depth, struct vb_wc *slots,
			 uint64_t mask); /* ibv_resize_cq */
	int (*cq_moderate)(vb_handle cq, int count, int microseconds); /* ibv_modify_cq */
	int (*cq_arm)(vb_handle cq, int solicited_only, enum vb_arm how); /* ibv_req_notify_cq */
	/*
	 * Announces that the application may poll the channel's descriptor, which shows arrivals. It
	 * has armed the queue and found it empty. Reads first. Returns whether completions have come.
	 * The descriptor shows the event of up to most of them later, as the caller polls them.
	 */
	int (*cq_sleep)(vb_handle cq, int most);
	/*
	 * Announces that the thread is about to wait until one of the queues has a completion. Handles
	 * of 0 are skipped. It returns 0 if there are completions. The caller then polls all queues,
	 * and takes no events. It returns EAGAIN if the thread is to wait for the eventfds of the
	 * channels, which only such threads use. With VB_TAKE_WAIT it reads the network first, and the
	 * thread also waits for arrivals. The wait ends with cqs_woken, or with another cqs_sleep and
	 * VB_TAKE_WOKEN.
	 */
	int (*cqs_sleep)(const vb_handle *cqs, unsigned n, enum vb_take how);
	/* how is that of cqs_sleep. */
	void (*cqs_woken)(const vb_handle *cqs, unsigned n, enum vb_take how);
	int (*cq_destroy)(vb_handle cq); /* ibv_destroy_cq, ends cq */

	/* -- shared receive queues ------------------------------------------- */

	int (*srq_create)(struct vb_srq_init *init, vb_handle *srq,
			  uint32_t *srq_num); /* ibv_create_srq */
	/*
	 * With IBV_SRQ_MAX_WR the posted receives move to slots (slot_mask + 1 of them). The
	 * caller holds the lock of posting.
	 */
	int (*srq_modify)(vb_handle srq, struct ibv_srq_attr *attr, int mask, struct ibv_sge *slots,
			  uint64_t slot_mask); /* ibv_modify_srq */
	int (*srq_query)(vb_handle srq, struct ibv_srq_attr *attr); /* ibv_query_srq */
	/* *bad is set on errors. */
	int (*srq_post_ops)(vb_handle srq, struct ibv_ops_wr *wr,
			    struct ibv_ops_wr **bad); /* ibv_post_srq_ops */
	int (*srq_destroy)(vb_handle srq); /* ibv_destroy_srq, ends srq */

	/* -- completion counters ----------------------------------------------- */

	int (*cntr_create)(vb_handle ctx, uint32_t cntr_type,
			   vb_handle *cntr); /* ibv_create_comp_cntr */
	int (*cntr_destroy)(vb_handle cntr); /* ibv_destroy_comp_cntr, ends cntr */
	/* failed says that it is the count of errors. */
	int (*cntr_read)(vb_handle cntr, int failed, uint64_t *value); /* ibv_read_comp_cntr */
	int (*cntr_set)(vb_handle cntr, int failed, uint64_t value); /* ibv_set_comp_cntr */
	int (*cntr_inc)(vb_handle cntr, int failed, uint64_t amount); /* ibv_inc_comp_cntr */
	/* ops is enum ibv_qp_attach_comp_cntr_op. */
	int (*qp_attach_cntr)(vb_handle qp, vb_handle cntr, uint32_t ops); /* ibv_qp_attach_comp_cntr */

	/* -- queue pairs ------------------------------------------------------- */

	int (*qp_create)(struct vb_qp_init *init, vb_handle *qp, uint32_t *qp_num); /* ibv_create_qp */
	/* Opens the XRC_RECV queue pair of that number in the domain. */
	int (*qp_open)(vb_handle xrcd, uint32_t qp_num, vb_cookie cookie,
		       vb_handle *qp); /* ibv_open_qp */
	int (*qp_modify)(vb_handle qp, struct ibv_qp_attr *attr, int mask); /* ibv_modify_qp */
	int (*qp_limit_rate)(vb_handle qp,
			     struct ibv_qp_rate_limit_attr *attr); /* ibv_modify_qp_rate_limit */
	/* init may be NULL. Only its cap and sq_sig_all are written. */
	int (*qp_query)(vb_handle qp, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init); /* ibv_query_qp */
	/* When it fails, *bad is the first work request that was not posted. */
	int (*qp_post_send)(vb_handle qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	/* Says that receives were posted while posting was not VB_RECV_FREE. */
	int (*qp_recvs_posted)(vb_handle qp); /* ibv_post_recv */
	/* On success *rkey is the window's key from the completion on. */
	int (*qp_bind_mw)(vb_handle qp, struct vb_mw *mw, struct ibv_mw_bind *bind,
			  uint32_t *rkey); /* ibv_bind_mw */
	int (*qp_attach_mcast)(vb_handle qp, const union ibv_gid *gid); /* ibv_attach_mcast */
	int (*qp_detach_mcast)(vb_handle qp, const union ibv_gid *gid); /* ibv_detach_mcast */
	int (*qp_destroy)(vb_handle qp); /* ibv_destroy_qp, ends qp */

	/* -- flow steering ------------------------------------------------------ */

	/* specs are those behind attr, in length bytes, but for n counters. */
	int (*qp_create_flow)(vb_handle qp, struct ibv_flow_attr *attr, void *specs, size_t length,
			      vb_handle *counters, uint32_t n,
			      vb_handle *flow); /* ibv_create_flow */
	int (*flow_destroy)(vb_handle flow); /* ibv_destroy_flow, ends flow */

	int (*ctx_create_counters)(vb_handle ctx, vb_handle *counters); /* ibv_create_counters */
	/* what is enum ibv_counter_description; flow may be 0. */
	int (*counters_attach)(vb_handle counters, uint32_t what, uint32_t index,
			       vb_handle flow); /* ibv_attach_counters_point_flow */
	int (*counters_read)(vb_handle counters, uint64_t *values, uint32_t n); /* ibv_read_counters */
	int (*counters_destroy)(vb_handle counters); /* ibv_destroy_counters, ends counters */

	/* -- work queues ---------------------------------------------------------- */

	int (*pd_wq_create)(vb_handle pd, vb_handle cq, uint32_t max_wr, uint32_t max_sge,
			    struct vb_recv_memory *recv, vb_handle *wq,
			    uint32_t *wq_num); /* ibv_create_wq */
	/* state is enum ibv_wq_state. */
	int (*wq_modify)(vb_handle wq, uint32_t state); /* ibv_modify_wq */
	/* As qp_recvs_posted. */
	int (*wq_recvs_posted)(vb_handle wq); /* ibv_post_wq_recv */
	int (*wq_destroy)(vb_handle wq); /* ibv_destroy_wq, ends wq */
	/* An indirection table of n work queues. */
	int (*ctx_spread_create)(vb_handle ctx, vb_handle *wqs, uint32_t n,
				 vb_handle *spread); /* ibv_create_rwq_ind_table */
	int (*spread_destroy)(vb_handle spread); /* ibv_destroy_rwq_ind_table, ends spread */
	/* key has the 40 bytes of a Toeplitz hash, fields are of enum ibv_rx_hash_fields. */
	int (*pd_qp_spread)(vb_handle pd, vb_handle spread, void *key, uint64_t fields,
			    vb_cookie cookie, vb_handle *qp, uint32_t *qp_num); /* ibv_create_qp */

	/* -- address handles --------------------------------------------------- */

	int (*ah_create)(vb_handle pd, struct ibv_ah_attr *attr, vb_handle *ah); /* ibv_create_ah */
	int (*ah_destroy)(vb_handle ah); /* ibv_destroy_ah, ends ah */

	/* -- connection manager -------------------------------------------------- */

	/* fd is the write end of the channel's pipe. */
	int (*cm_channel_create)(int fd, vb_handle *channel); /* rdma_create_event_channel */
	int (*cm_channel_destroy)(vb_handle channel); /* rdma_destroy_event_channel, takes channel */

	/*
	 * Makes an epoll set readable when messages of connection managers have come; the data of that
	 * event fit 32 bits. A thread that waits for the set, and finds that, calls cm_serve. It needs
	 * no other call if it leaves the wait. The set stays open as long as the process, and
	 * descriptors returns it.
	 */
	int (*cm_watch)(int epoll);
	/* Handles these messages. Their events are in the pipes of channels when it returns. */
	void (*cm_serve)(void);

	int (*cm_id_create)(vb_handle channel, int ps, vb_cookie cookie,
			    vb_handle *id); /* rdma_create_id */
	/*
	 * Gives the identifier of a CONNECT_REQUEST its cookie. Its later events wait until
	 * then.
	 */
	int (*cm_id_adopt)(vb_handle id, vb_cookie cookie); /* rdma_get_cm_event */
	/*
	 * After it has returned the engine writes no event of the identifier. Events in the
	 * pipe still carry the cookie: the front drops them.
	 */
	int (*cm_id_destroy)(vb_handle id); /* rdma_destroy_id */
	/*
	 * Sets the type of the queue pair that the front drives by itself. It is RC until
	 * then, and UD in the UDP port space.
	 */
	int (*cm_set_type)(vb_handle id, enum ibv_qp_type qp_type); /* rdma_create_qp */
	int (*cm_migrate)(vb_handle id, vb_handle channel); /* rdma_migrate_id */
	int (*cm_bind)(vb_handle id, const struct sockaddr *addr); /* rdma_bind_addr */
	int (*cm_resolve_addr)(vb_handle id, const struct sockaddr *src, const struct sockaddr *dst,
			       int timeout_ms); /* rdma_resolve_addr */
	int (*cm_resolve_route)(vb_handle id, int timeout_ms); /* rdma_resolve_route */
	int (*cm_route)(vb_handle id, struct vb_cm_route *route); /* rdma_cm_id */
	int (*cm_listen)(vb_handle id, int backlog); /* rdma_listen */
	/* param->qp_num and ->srq count where the identifier has no queue pair. */
	int (*cm_connect)(vb_handle id, const struct rdma_conn_param *param,
			  const struct ibv_ece *ece); /* rdma_connect */
	int (*cm_accept)(vb_handle id, const struct rdma_conn_param *param,
			 const struct ibv_ece *ece); /* rdma_accept */
	int (*cm_establish)(vb_handle id); /* rdma_establish */
	int (*cm_reject)(vb_handle id, const void *priv, uint8_t length); /* rdma_reject */
	/* The same for the reason of rdma_reject_ece(3). */
	int (*cm_reject_ece)(vb_handle id, const void *priv, uint8_t length); /* rdma_reject_ece */
	int (*cm_disconnect)(vb_handle id); /* rdma_disconnect */
	int (*cm_notify)(vb_handle id, enum ibv_event_type event); /* rdma_notify */
	/* level and optname are those of rdma_set_option(3). */
	int (*cm_set_option)(vb_handle id, int level, int optname, const void *value,
			     size_t length); /* rdma_set_option */
	int (*cm_qp_create)(vb_handle id, struct vb_qp_init *init, vb_handle *qp,
			    uint32_t *qp_num); /* rdma_create_qp */
	int (*cm_qp_destroy)(vb_handle id); /* rdma_destroy_qp */
	int (*cm_init_qp_attr)(vb_handle id, struct ibv_qp_attr *attr,
			       int *mask); /* rdma_init_qp_attr */
	/* MULTICAST_JOIN or MULTICAST_ERROR follows. */
	int (*cm_join)(vb_handle id, const struct sockaddr *addr, uint64_t join_flags,
		       vb_cookie context); /* rdma_join_multicast */
	int (*cm_leave)(vb_handle id, const struct sockaddr *addr); /* rdma_leave_multicast */

	/* -- GID tables ---------------------------------------------------------- */

	/*
	 * Makes the engine number GIDs as the front does. The function fills in up to max
	 * entries of an interface's table, zero where an entry is free. It returns the number
	 * of the last entry in use plus one, or a negative errno.
	 */
	void (*use_gid_tables)(int (*table)(const char *netdev, union ibv_gid *gids, int max));
};

/* The one symbol of libverbena-engine.so. */
#define VB_ENGINE_SYMBOL "verbena_engine"

#endif
