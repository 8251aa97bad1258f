/* SPDX-License-Identifier: BSD-2-Clause */
// peer does one operation on the memory of another process over a reliable
// connection, by librdmacm and libibverbs. The Go program in the folder above
// has the same command line and says the same things, so that either can stand
// on either side.
//
//   peer serve ADDR PORT BYTES SEED         offers memory until the peer disconnects
//   peer receive ADDR PORT BYTES SEED DELAY the same, and receives one message
//                                           into it, DELAY milliseconds late, or ready
//                                           before it accepts: "now" without window, or
//                                           "bound" with
//   peer refuse ADDR PORT BYTES SEED        rejects one request, and says why
//   peer connect ADDR PORT BYTES SEED OP    does OP on memory that is offered
//
// OP is write, read, badread and badwrite (with a wrong rkey), or flood (WRITEs until one fails or
// the connection is over). cas swaps in 5 if the first word there is the one here; fadd adds 5 to
// it. send, sendimm and writeimm are those operations. sendinv is a SEND that invalidates the
// window's key, or the memory's where a device has no windows. A READ with that key follows, which
// says "then" with the completion's status. latesendinv is the same, when a receiver that is
// "bound" has had time for it. Each side begins with BYTES bytes of the pattern of its SEED. Each
// prints at the end "sum", the FNV-1a of its memory, and "word", its first 8 bytes as a number.
// connect prints "wc" with the completion's status before, and ends with 1 if that is not success.
//
// receive prints "received" with the completion's fields. The private data describe the memory: va
// (64), rkey (32), the rkey of a type 2 window over it, of receive only (32), length (32),
// big-endian.
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct offer {
	uint64_t va;
	uint32_t rkey;
	uint32_t window;
	uint32_t length;
} __attribute__((packed));

enum {
	smallest = 8, // bytes of memory there always are, for an atomic
	rkey_damage = 0x5a5a00,
	new_value = 5,
	immediate = 0x12345678,
	bind_ms = 300,
};

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

struct memory {
	uint8_t *bytes;
	size_t length;
	struct ibv_mr *mr;
};

static struct memory make_memory(struct ibv_pd *pd, size_t length, uint32_t seed)
{
	struct memory m = {.length = length};
	size_t room = length < smallest ? smallest : length;

	if (posix_memalign((void **)&m.bytes, 4096, room))
		die("memory");
	memset(m.bytes, 0, room);
	for (size_t i = 0; i < length; i++)
		m.bytes[i] = ((uint32_t)i + seed) * 2654435761u >> 24;
	m.mr = ibv_reg_mr(pd, m.bytes, room, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	if (!m.mr)
		die("ibv_reg_mr");
	return m;
}

static uint64_t first_word(const struct memory *m)
{
	uint64_t word;

	memcpy(&word, m->bytes, sizeof word);
	return word;
}

static void report(const struct memory *m)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (size_t i = 0; i < m->length; i++)
		sum = (sum ^ m->bytes[i]) * 0x100000001b3;
	printf("sum %016" PRIx64 "\nword %016" PRIx64 "\n", sum, first_word(m));
}

static struct rdma_cm_id *endpoint(const char *addr, const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | flags,
				      .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info;
	struct ibv_qp_init_attr qp = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, port, &hints, &info))
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&id, info, NULL, &qp))
		die("rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static void bind_window(struct rdma_cm_id *id, struct memory *m, struct ibv_mw *mw, uint32_t rkey)
{
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = {
			.mr = m->mr, .addr = (uintptr_t)m->bytes, .length = m->length,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		}},
	}, *bad;
	struct ibv_wc wc;

	if (ibv_post_send(id->qp, &bind, &bad) || rdma_get_send_comp(id, &wc) < 0 || wc.status)
		die("bind");
}

// post_late waits, so that a message meets a receiver that is not ready.
static void post_late(struct rdma_cm_id *id, struct memory *m, unsigned delay)
{
	struct timespec pause = {delay / 1000, delay % 1000 * 1000000l};

	nanosleep(&pause, NULL);
	if (rdma_post_recv(id, NULL, m->bytes, m->length, m->mr))
		die("rdma_post_recv");
}

static void receive_one(struct rdma_cm_id *id, uint32_t rkey)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) < 0)
		die("rdma_get_recv_comp");
	// rxe passes the kernel's IB_WC_WITH_INVALIDATE on, 1 << 2, which is not
	// IBV_WC_WITH_INV: so the key alone is looked at.
	printf("received %s opcode %d bytes %u imm %08x invalidated %d\n", ibv_wc_status_str(wc.status),
	       wc.opcode, wc.byte_len,
	       wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0,
	       !(wc.wc_flags & IBV_WC_WITH_IMM) && wc.invalidated_rkey == rkey);
}

static const char reason[] = "not today";

// refuse rejects one request.
static void refuse(const char *addr, const char *port)
{
	struct rdma_cm_id *listener = endpoint(addr, port, RAI_PASSIVE), *id;

	if (rdma_listen(listener, 1))
		die("rdma_listen");
	puts("listening");
	if (rdma_get_request(listener, &id))
		die("rdma_get_request");
	if (rdma_reject(id, reason, sizeof reason - 1))
		die("rdma_reject");
	puts("refused");
}

static void serve(const char *addr, const char *port, size_t length, uint32_t seed,
		  const char *delay)
{
	int now = delay && !strcmp(delay, "now"), ready = now || (delay && !strcmp(delay, "bound"));
	struct rdma_cm_id *listener = endpoint(addr, port, RAI_PASSIVE), *id;
	struct rdma_cm_event *event;

	if (rdma_listen(listener, 1))
		die("rdma_listen");
	puts("listening");
	if (rdma_get_request(listener, &id))
		die("rdma_get_request");

	struct memory m = make_memory(id->pd, length, seed);
	struct ibv_mw *mw = delay && !now ? ibv_alloc_mw(id->pd, IBV_MW_TYPE_2) : NULL;
	uint32_t window = mw ? ibv_inc_rkey(mw->rkey) : m.mr->rkey;
	struct offer offer = {htobe64((uintptr_t)m.bytes), htonl(m.mr->rkey), htonl(window),
			      htonl(length)};
	struct rdma_conn_param param = {
		.private_data = &offer, .private_data_len = sizeof offer,
		.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7,
	};
	if (ready && rdma_post_recv(id, NULL, m.bytes, m.length, m.mr))
		die("rdma_post_recv");
	if (rdma_accept(id, &param))
		die("rdma_accept");
	puts("connected");
	if (delay) {
		if (mw)
			bind_window(id, &m, mw, window);
		if (!ready)
			post_late(id, &m, strtoul(delay, NULL, 0));
		receive_one(id, window);
	}
	do {
		if (rdma_get_cm_event(id->channel, &event))
			die("rdma_get_cm_event");
	} while (event->event != RDMA_CM_EVENT_DISCONNECTED);
	puts("disconnected");
	report(&m);
}

static struct ibv_send_wr request(const char *op, const struct offer *offer,
				  const struct memory *m, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1};
	uint64_t va = be64toh(offer->va);
	uint32_t rkey = ntohl(offer->rkey);

	if (!strcmp(op, "cas") || !strcmp(op, "fadd")) {
		sge->length = 8;
		wr.opcode = *op == 'c' ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = va;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = *op == 'c' ? first_word(m) : new_value;
		wr.wr.atomic.swap = new_value;
		return wr;
	}
	sge->length = m->length;
	if (!strncmp(op, "send", 4) || !strcmp(op, "latesendinv")) {
		wr.opcode = IBV_WR_SEND;
		if (!strcmp(op, "sendimm")) {
			wr.opcode = IBV_WR_SEND_WITH_IMM;
			wr.imm_data = htonl(immediate);
		} else if (strstr(op, "sendinv")) {
			wr.opcode = IBV_WR_SEND_WITH_INV;
			wr.invalidate_rkey = ntohl(offer->window);
			wr.wr.rdma.rkey = wr.invalidate_rkey; // where the library of siw takes it from
		}
		return wr;
	}
	if (!strcmp(op, "writeimm")) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl(immediate);
		wr.wr.rdma.remote_addr = va;
		wr.wr.rdma.rkey = rkey;
		return wr;
	}
	int reads = !strcmp(op, "read") || !strcmp(op, "badread");

	wr.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = va;
	wr.wr.rdma.rkey = !strncmp(op, "bad", 3) ? rkey ^ rkey_damage : rkey;
	return wr;
}

static int64_t microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

// flood repeats a work request until one fails or the connection is over. siw may say nothing of a
// work request that is posted in that moment.
static void flood(struct rdma_cm_id *id, struct ibv_send_wr *wr, struct ibv_wc *wc)
{
	struct pollfd events = {.fd = id->channel->fd, .events = POLLIN};
	struct ibv_send_wr *bad;

	while (wc->status == IBV_WC_SUCCESS) {
		if (ibv_post_send(id->qp, wr, &bad)) {
			wc->status = IBV_WC_WR_FLUSH_ERR;
			return;
		}
		while (ibv_poll_cq(id->send_cq, 1, wc) == 0)
			if (poll(&events, 1, 0) > 0) {
				wc->status = IBV_WC_WR_FLUSH_ERR;
				return;
			}
	}
}

static int connect_and_do(const char *addr, const char *port, size_t length, uint32_t seed,
			  const char *op)
{
	struct rdma_cm_id *id = endpoint(addr, port, 0);
	struct memory m = make_memory(id->pd, length, seed);
	struct rdma_conn_param param = {
		.responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7,
	};
	struct offer offer;
	struct ibv_wc wc;

	if (rdma_connect(id, &param)) {
		if (id->event && id->event->event == RDMA_CM_EVENT_REJECTED)
			printf("rejected %.*s\n", id->event->param.conn.private_data_len,
			       (const char *)id->event->param.conn.private_data);
		die("rdma_connect");
	}
	memcpy(&offer, id->event->param.conn.private_data, sizeof offer);

	struct ibv_sge sge = {.addr = (uintptr_t)m.bytes, .lkey = m.mr->lkey};
	struct ibv_send_wr wr = request(op, &offer, &m, &sge), *bad;
	struct timespec pause = {.tv_nsec = bind_ms * 1000000l};

	if (!strncmp(op, "late", 4))
		nanosleep(&pause, NULL);
	int64_t start = microseconds();

	if (ibv_post_send(id->qp, &wr, &bad))
		die("ibv_post_send");
	if (rdma_get_send_comp(id, &wc) < 0)
		die("rdma_get_send_comp");
	if (!strcmp(op, "flood") && wc.status == IBV_WC_SUCCESS)
		puts("flooding");
	if (!strcmp(op, "flood"))
		flood(id, &wr, &wc);
	printf("wc %s after %" PRId64 " us\n", ibv_wc_status_str(wc.status), microseconds() - start);
	int failed = wc.status != IBV_WC_SUCCESS;
	if (strstr(op, "sendinv")) { // the key is to be gone
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = be64toh(offer.va);
		wr.wr.rdma.rkey = ntohl(offer.window);
		if (ibv_post_send(id->qp, &wr, &bad) || rdma_get_send_comp(id, &wc) < 0)
			die("READ");
		printf("then %s\n", ibv_wc_status_str(wc.status));
	}
	rdma_disconnect(id);
	report(&m);
	return failed;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 6 && !strcmp(argv[1], "serve")) {
		serve(argv[2], argv[3], strtoul(argv[4], NULL, 0), strtoul(argv[5], NULL, 0), NULL);
		return 0;
	}
	if (argc == 7 && !strcmp(argv[1], "receive")) {
		serve(argv[2], argv[3], strtoul(argv[4], NULL, 0),
				      strtoul(argv[5], NULL, 0), argv[6]);
		return 0;
	}
	if (argc == 6 && !strcmp(argv[1], "refuse")) {
		refuse(argv[2], argv[3]);
		return 0;
	}
	if (argc == 7 && !strcmp(argv[1], "connect"))
		return connect_and_do(argv[2], argv[3], strtoul(argv[4], NULL, 0),
				      strtoul(argv[5], NULL, 0), argv[6]);
	fputs("usage: peer serve ADDR PORT BYTES SEED | peer receive ADDR PORT BYTES SEED DELAY | "
	      "peer refuse ADDR PORT BYTES SEED | "
	      "peer connect ADDR PORT BYTES SEED write|read|badread|badwrite|flood|cas|fadd|send|"
	      "sendimm|writeimm|sendinv|latesendinv\n", stderr);
	return 2;
}
