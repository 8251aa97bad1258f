/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the front libraries (libibverbs.so.1, librdmacm.so.1: C) and the engine
 * (libverbena-engine.so: Go) know of each other.
 *
 * The front owns every structure that an application sees, its locks, its
 * descriptors and the memory of completion and receive queues. The engine owns protocol,
 * keys and sockets, and names its objects by handles. The front opens the
 * engine with dlopen at the first object that needs it and calls it through one
 * table of functions, verbena_engine.
 *
 * Unless said otherwise a function returns 0 or a positive errno, changes
 * nothing when it fails, may be called from any thread at any time, does not
 * block on the network and keeps no pointer that it was given.
 */
#ifndef VERBENA_ENGINE_H
#define VERBENA_ENGINE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdint.h>

#define VB_ENGINE_VERSION 3

/* A handle names an object of the engine; 0 is none. */
typedef uint64_t vb_handle;

/*
 * A cookie is what the front calls its own object: a number that it does not
 * give out twice, so that an event of an object that is gone finds nothing.
 */
typedef uint64_t vb_cookie;

/*
 * A completion as the engine writes it: laid out as ib.WC, whose numbers are
 * those of the specification and of enum ibv_wc_status, ibv_wc_opcode and
 * ibv_wc_flags.
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
	uint8_t pad2[7];
};
_Static_assert(sizeof(struct vb_wc) == 48, "struct vb_wc is laid out as ib.WC");

/*
 * The memory of a completion queue. The engine pushes at tail, under a lock of
 * its own; the front polls at head, under a lock of its own, without a call.
 * Entry i is slots[i & mask]. head and tail count up for ever.
 *
 * Where the engine removes completions from the middle (qp_destroy, qp_modify
 * to RESET, cq_resize) it moves head: the front holds the poll locks of the
 * queues concerned around those calls.
 */
struct vb_cq_ring {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t overrun; /* a completion was lost: polling fails */
	_Alignas(64) uint64_t mask;
	struct vb_wc *slots; /* mask + 1 of them */
};

/*
 * The memory of a receive queue. The front posts at tail, under a lock of its
 * own and without a call; the engine takes at head, when a message or a flush
 * wants a receive. head and tail count up for ever, and tail - head is at most
 * what the queue was made for. So a key that is wrong shows when the receive is
 * used, as it does with an adapter.
 *
 * Receive i is in slot i & mask. A slot is 1 + max_sge elements, of which the
 * first is its head: addr is the wr_id, length the bytes in all, lkey the number
 * of elements.
 *
 * The front looks at posting before it posts and, tail being stored, once more;
 * both stores and loads are sequentially consistent. If it is not VB_RECV_FREE
 * then, the front calls qp_recvs_posted: the queue pair is in the error state, where
 * receives are flushed, or came there meanwhile.
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
 * The ring of a receive queue that is made for cap.max_recv_wr or attr.max_wr
 * receives, and its slots: mask + 1 of them, a power of two. They stay in place
 * until the queue is destroyed. A front that does not post leaves ring NULL.
 */
struct vb_recv_memory {
	struct vb_recv_ring *ring;
	struct ibv_sge *slots;
	uint64_t mask;
};

/*
 * Where the front sees by itself that something has come from another process of
 * this host: at data + (next & mask) of one of the first seats is something other
 * than 0. Then progress is worth a call; the engine moves next on. data is 0 where
 * there is nothing to look at. What was ever mapped at data stays so.
 *
 * While patient is 0 there are other things to look at, for which progress is
 * called as often as if there were no news. The front counts its looks, for the
 * engine to see that somebody polls.
 */
struct vb_news {
	_Atomic uint32_t patient;
	_Atomic uint32_t seats;
	uint64_t mask;
	_Alignas(64) _Atomic uint64_t looks;
	_Alignas(64) struct {
		_Atomic uintptr_t data;
		_Atomic uint64_t next;
	} at[];
};

/*
 * What the engine writes into a completion channel's descriptor for each event:
 * the cookie of the completion queue. One write, one event. If the pipe is full
 * the engine keeps the event and writes it later.
 */
typedef vb_cookie vb_cq_event;

/* What it writes into a context's asynchronous-event descriptor. */
struct vb_async_event {
	uint32_t type; /* enum ibv_event_type */
	uint32_t port; /* of port events */
	vb_cookie object; /* queue pair, completion queue, SRQ or work queue; 0 for port events */
};

/*
 * Front objects that work requests point to. The engine reads the handle
 * behind the public structure.
 */
struct vb_ah {
	struct ibv_ah ah;
	vb_handle handle;
};

struct vb_mr {
	struct ibv_mr mr; /* first, as verbs_mr has it */
	vb_handle handle;
};

struct vb_mw {
	struct ibv_mw mw;
	vb_handle handle;
};

/*
 * A FLUSH (ibv_wr_flush of rdma-core 64) as a struct ibv_send_wr: the opcode, and
 * of wr.atomic remote_addr, rkey, compare_add as the length and swap as the type
 * with the level in bits 8 to 15.
 */
#define VB_WR_FLUSH ((enum ibv_wr_opcode)14)

struct vb_qp_init {
	enum ibv_qp_type type; /* RC, UC, UD, XRC_SEND, XRC_RECV */
	int sq_sig_all;
	struct ibv_qp_cap cap; /* in and out: what was granted */
	vb_handle pd, send_cq, recv_cq, srq, xrcd; /* 0 where there is none */
	vb_cookie cookie; /* in asynchronous events */
	struct vb_recv_memory recv; /* ignored where srq or the type leaves it no receives */
};

struct vb_srq_init {
	struct ibv_srq_attr attr; /* in and out */
	vb_handle pd;
	vb_handle xrcd, cq; /* both for an XRC SRQ, else 0 */
	vb_cookie cookie;
	struct vb_recv_memory recv;
};

/*
 * A connection manager event: written as a pointer (8 bytes) into the event
 * channel's descriptor, malloc'ed by the engine, freed by the front.
 *
 * id is the identifier that the event is for. For RDMA_CM_EVENT_CONNECT_REQUEST
 * it is the listener, and new_id a new identifier of the engine, which the
 * front gives a cookie with cm_id_adopt. No event is for that one before the
 * front has accepted the request. An event for an identifier that was destroyed
 * meanwhile is dropped by the front, with its new_id.
 */
struct vb_cm_event {
	vb_cookie id;
	vb_handle new_id;
	vb_cookie context; /* of MULTICAST_JOIN and _ERROR: cm_join's */
	uint32_t type;	 /* enum rdma_cm_event_type */
	int32_t status;	 /* 0, a negative errno, or for REJECTED the reason */
	int is_ud;
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
	} param; /* private_data points to priv, or is NULL */
	uint8_t priv[256];
};

/* Where an identifier stands; NUL-terminated device is empty while unbound. */
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

/* A link of windows, which is a device, as it is now. */
struct vb_link {
	uint64_t guid;
	union ibv_gid gids[2]; /* of which the second may be :: */
	int active; /* open, and the peer is there, or has not come yet */
};

struct vb_engine {
	uint32_t version; /* VB_ENGINE_VERSION */

	/* -- process ------------------------------------------------------- */

	/*
	 * Writes up to max descriptors of the engine's that a forked child must
	 * close, and returns how many there are.
	 */
	int (*descriptors)(int *fds, int max);

	/* -- links of windows ------------------------------------------------ */

	/* Writes up to max of the links that VERBENA_NTB names, from the first one given on, and how many there are. */
	int (*links)(struct vb_link *links, unsigned first, unsigned max, unsigned *count);

	/* -- context, by the device's name ---------------------------------- */

	int (*ctx_open)(const char *device, int async_fd, vb_handle *ctx);
	int (*ctx_close)(vb_handle ctx);
	int (*ctx_violations)(vb_handle ctx, uint32_t *bad_pkey, uint32_t *qkey);
	/*
	 * Reads the network without blocking: what an empty poll does now and then.
	 * It stands for so many polls.
	 */
	void (*progress)(vb_handle ctx, unsigned polls);
	/* Where to look for news; NULL where there is nothing to look at. It stays. */
	int (*news)(vb_handle ctx, struct vb_news **news);
	/* Says that the application is about to sleep: the engine reads by itself. */
	void (*wake)(vb_handle ctx);

	/* -- domains and memory --------------------------------------------- */

	int (*pd_alloc)(vb_handle ctx, vb_handle *pd);
	int (*pd_free)(vb_handle pd);
	int (*xrcd_open)(vb_handle ctx, int fd, int oflags, vb_handle *xrcd);
	int (*xrcd_close)(vb_handle xrcd);
	int (*mr_reg)(vb_handle pd, void *addr, size_t length, uint64_t iova, unsigned access, vb_handle *mr, uint32_t *lkey, uint32_t *rkey);
	/* flags is enum ibv_rereg_mr_flags. */
	int (*mr_rereg)(vb_handle mr, int flags, vb_handle pd, void *addr, size_t length, unsigned access, uint32_t *lkey, uint32_t *rkey);
	int (*mr_dereg)(vb_handle mr);
	int (*mw_alloc)(vb_handle pd, enum ibv_mw_type type, vb_handle *mw, uint32_t *rkey);
	int (*mw_free)(vb_handle mw);

	/* -- completion queues ----------------------------------------------- */

	/* channel_fd is the write end of the channel's pipe, or -1. */
	int (*cq_create)(vb_handle ctx, int depth, struct vb_cq_ring *ring, int channel_fd, vb_cookie cookie, vb_handle *cq);
	/* Moves what is in the ring to slots (mask + 1 of them) and changes the ring. */
	int (*cq_resize)(vb_handle cq, int depth, struct vb_wc *slots, uint64_t mask);
	int (*cq_arm)(vb_handle cq, int solicited_only);
	int (*cq_destroy)(vb_handle cq);

	/* -- shared receive queues ------------------------------------------- */

	int (*srq_create)(struct vb_srq_init *init, vb_handle *srq, uint32_t *srq_num);
	/* With IBV_SRQ_MAX_WR what is posted moves to slots (slot_mask + 1 of them): nobody posts meanwhile. */
	int (*srq_modify)(vb_handle srq, struct ibv_srq_attr *attr, int mask, struct ibv_sge *slots, uint64_t slot_mask);
	int (*srq_query)(vb_handle srq, struct ibv_srq_attr *attr);
	int (*srq_destroy)(vb_handle srq);

	/* -- queue pairs ------------------------------------------------------- */

	int (*qp_create)(struct vb_qp_init *init, vb_handle *qp, uint32_t *qp_num);
	/* An XRC_RECV queue pair of the domain, by number: ibv_open_qp. */
	int (*qp_open)(vb_handle xrcd, uint32_t qp_num, vb_cookie cookie, vb_handle *qp);
	int (*qp_modify)(vb_handle qp, struct ibv_qp_attr *attr, int mask);
	/* init may be NULL; of it only cap and sq_sig_all are written. */
	int (*qp_query)(vb_handle qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
	int (*qp_post_send)(vb_handle qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	/* Receives were posted and posting was not VB_RECV_FREE. */
	int (*qp_recvs_posted)(vb_handle qp);
	/* On success *rkey is the window's key from the completion on. */
	int (*qp_bind_mw)(vb_handle qp, struct vb_mw *mw, struct ibv_mw_bind *bind, uint32_t *rkey);
	int (*qp_attach_mcast)(vb_handle qp, const union ibv_gid *gid);
	int (*qp_detach_mcast)(vb_handle qp, const union ibv_gid *gid);
	int (*qp_destroy)(vb_handle qp);

	/* -- address handles --------------------------------------------------- */

	int (*ah_create)(vb_handle pd, struct ibv_ah_attr *attr, vb_handle *ah);
	int (*ah_destroy)(vb_handle ah);

	/* -- connection manager -------------------------------------------------- */

	/* fd is the write end of the channel's pipe. */
	int (*cm_channel_create)(int fd, vb_handle *channel);
	int (*cm_channel_destroy)(vb_handle channel);

	int (*cm_id_create)(vb_handle channel, int ps, vb_cookie cookie, vb_handle *id);
	/* Gives the identifier of a CONNECT_REQUEST its cookie; its later events wait until then. */
	int (*cm_id_adopt)(vb_handle id, vb_cookie cookie);
	/*
	 * When it returns the engine writes no event of the identifier any more.
	 * Those in the pipe carry the cookie still: the front drops them.
	 */
	int (*cm_id_destroy)(vb_handle id);
	/* The type of the queue pair that the front drives by itself: by default RC, in the UDP port space UD. */
	int (*cm_set_type)(vb_handle id, enum ibv_qp_type type);
	int (*cm_migrate)(vb_handle id, vb_handle channel);
	int (*cm_bind)(vb_handle id, const struct sockaddr *addr);
	int (*cm_resolve_addr)(vb_handle id, const struct sockaddr *src, const struct sockaddr *dst, int timeout_ms);
	int (*cm_resolve_route)(vb_handle id, int timeout_ms);
	int (*cm_route)(vb_handle id, struct vb_cm_route *route);
	int (*cm_listen)(vb_handle id, int backlog);
	/* param->qp_num and ->srq count where the identifier has no queue pair. */
	int (*cm_connect)(vb_handle id, const struct rdma_conn_param *param);
	int (*cm_accept)(vb_handle id, const struct rdma_conn_param *param);
	int (*cm_establish)(vb_handle id);
	int (*cm_reject)(vb_handle id, const void *priv, uint8_t length);
	/* The same for the reason of rdma_reject_ece(3). */
	int (*cm_reject_ece)(vb_handle id, const void *priv, uint8_t length);
	int (*cm_disconnect)(vb_handle id);
	int (*cm_notify)(vb_handle id, enum ibv_event_type event);
	/* level and optname are those of rdma_set_option(3). */
	int (*cm_set_option)(vb_handle id, int level, int optname, const void *value, size_t length);
	int (*cm_qp_create)(vb_handle id, struct vb_qp_init *init, vb_handle *qp, uint32_t *qp_num);
	int (*cm_qp_destroy)(vb_handle id);
	int (*cm_init_qp_attr)(vb_handle id, struct ibv_qp_attr *attr, int *mask);
	/* MULTICAST_JOIN or MULTICAST_ERROR follows. */
	int (*cm_join)(vb_handle id, const struct sockaddr *addr, uint64_t join_flags, vb_cookie context);
	int (*cm_leave)(vb_handle id, const struct sockaddr *addr);

	/* -- GID tables ---------------------------------------------------------- */

	/*
	 * Makes the engine count GIDs as the front does. The function fills in up to
	 * max entries of an interface's table, zero where one is free, and returns
	 * the number of the last one in use and one more, or a negative errno.
	 */
	void (*use_gid_tables)(int (*table)(const char *netdev, union ibv_gid *gids, int max));
};

/* The one symbol of libverbena-engine.so. */
#define VB_ENGINE_SYMBOL "verbena_engine"

#endif
