/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsetsockopt and rgetsockopt of streams: the options of rsocket(7), and others that need no code
 * of their own.
 */
#include "defaults.h"
#include "keepalive.h"
#include "stream.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

static bool get_int(const void *value, socklen_t length, int *n)
{
	if (!value || length < sizeof(*n))
		return false;
	memcpy(n, value, sizeof(*n));
	return true;
}

/*
 * Returns twice the size that was asked for, as the kernel does: socket(7). At most, so that the
 * length of half a buffer fits into a message.
 */
static uint32_t buffer_size(int asked, uint32_t least)
{
	const uint32_t most = 1u << RS_MSG_VALUE_BITS;
	uint64_t size = 2 * (uint64_t)(asked < 0 ? 0 : asked);

	return size < least ? least : size > most ? most : (uint32_t)size;
}

/* Returns 0 or a negative errno, as the functions below. The caller holds s.mu. */
static int set_id_option(struct rs_stream *st, int name, int n)
{
	uint8_t tos = (uint8_t)n;
	void *value = name == RDMA_OPTION_ID_TOS ? (void *)&tos : (void *)&n;

	return rdma_set_option(st->id, RDMA_OPTION_ID, name, value,
			       name == RDMA_OPTION_ID_TOS ? sizeof(tos) : sizeof(n))
		       ? -errno
		       : 0;
}

static int set_keepalive(struct rs_stream *st, bool on)
{
	int error = 0;

	st->keepalive = on;
	if (on)
		error = rs_keepalive_start(st);
	else
		rs_keepalive_stop(st);
	return error;
}

static int set_socket(struct rs_stream *st, int name, const void *value, socklen_t length)
{
	int n, error = 0;

	if (name == SO_LINGER) {
		if (length < sizeof(st->linger))
			return -EINVAL;
		memcpy(&st->linger, value, sizeof(st->linger));
		return 0;
	}
	if (!get_int(value, length, &n))
		return -EINVAL;
	switch (name) {
	case SO_REUSEADDR:
		error = set_id_option(st, RDMA_OPTION_ID_REUSEADDR, n);
		if (!error)
			st->reuse_addr = n;
		return error;
	case SO_RCVBUF: /* a buffer in use keeps its size; no error, as with TCP */
		if (!st->rbuf)
			st->receive_buffer = buffer_size(n, 2);
		return 0;
	case SO_SNDBUF:
		if (!st->sbuf)
			st->send_buffer = buffer_size(n, 2 * RS_SEND_LOW_WATER);
		return 0;
	case SO_KEEPALIVE:
		return set_keepalive(st, n);
	case SO_OOBINLINE:
		st->oob_inline = n;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_tcp(struct rs_stream *st, int name, const void *value, socklen_t length)
{
	int n;

	if (name == TCP_CONGESTION)
		return 0; /* a name: there is one algorithm */
	if (!get_int(value, length, &n))
		return -EINVAL;
	switch (name) {
	case TCP_NODELAY: /* nothing is ever delayed */
		st->no_delay = n;
		return 0;
	case TCP_KEEPIDLE:
		return n < 1 ? -EINVAL : rs_keepalive_set_idle(st, n);
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL: /* the retries of the queue pair stand for them */
	case TCP_MAXSEG:
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_rdma(struct rs_stream *st, int name, const void *value, socklen_t length)
{
	int n;

	if (st->state != RS_IDLE && st->state != RS_LISTENING)
		return -EINVAL; /* the queue pair exists, or is being made */
	if (name == RDMA_ROUTE) {
		void *route = length ? malloc(length) : NULL;

		if (length && !route)
			return -ENOMEM;
		free(st->route);
		st->route = route ? memcpy(route, value, length) : NULL;
		st->route_length = length;
		return 0;
	}
	if (!get_int(value, length, &n) || n < 0)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		st->send_queue = (uint32_t)n < RS_QUEUE_MAX ? (uint32_t)n : RS_QUEUE_MAX;
		return 0;
	case RDMA_RQSIZE:
		st->receive_queue = (uint32_t)n < RS_QUEUE_MAX ? (uint32_t)n : RS_QUEUE_MAX;
		return 0;
	case RDMA_INLINE:
		st->inline_data = (uint32_t)n < UINT16_MAX ? (uint32_t)n : UINT16_MAX;
		return 0;
	case RDMA_IOMAPSIZE:
		st->iomap_size = rs_unscale(rs_scale((uint32_t)n));
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_ip(struct rs_stream *st, int level, int name, const void *value, socklen_t length)
{
	int n, error = -ENOTSUP;

	if (!get_int(value, length, &n))
		return -EINVAL;
	if (level == IPPROTO_IP && name == IP_TOS) {
		error = set_id_option(st, RDMA_OPTION_ID_TOS, n);
		if (!error)
			st->tos = n;
	} else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		error = set_id_option(st, RDMA_OPTION_ID_AFONLY, n);
		if (!error)
			st->v6_only = n;
	}
	return error;
}

int rs_stream_setsockopt(struct rs_socket *s, int level, int name, const void *value,
			 socklen_t length)
{
	struct rs_stream *st = rs_stream(s);
	int error;

	if (!value && length)
		return -EFAULT;
	pthread_mutex_lock(&s->mu);
	switch (level) {
	case SOL_SOCKET:
		error = set_socket(st, name, value, length);
		break;
	case IPPROTO_TCP:
		error = set_tcp(st, name, value, length);
		break;
	case IPPROTO_IP:
	case IPPROTO_IPV6:
		error = set_ip(st, level, name, value, length);
		break;
	case SOL_RDMA:
		error = set_rdma(st, name, value, length);
		break;
	default:
		error = -ENOTSUP;
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}

/*
 * Copies a value out as the kernel does: cut to *length, which becomes the number of bytes written.
 */
static int put(void *value, socklen_t *length, const void *from, socklen_t size)
{
	if (*length > size)
		*length = size;
	memcpy(value, from, *length);
	return 0;
}

static int put_int(void *value, socklen_t *length, int n)
{
	return put(value, length, &n, sizeof(n));
}

static int get_socket(struct rs_stream *st, int name, void *value, socklen_t *length)
{
	switch (name) {
	case SO_REUSEADDR:
		return put_int(value, length, st->reuse_addr);
	case SO_KEEPALIVE:
		return put_int(value, length, st->keepalive);
	case SO_OOBINLINE:
		return put_int(value, length, st->oob_inline);
	case SO_RCVBUF:
		return put_int(value, length, (int)st->receive_buffer);
	case SO_SNDBUF:
		return put_int(value, length, (int)st->send_buffer);
	case SO_LINGER:
		return put(value, length, &st->linger, sizeof(st->linger));
	case SO_ERROR:
		return put_int(value, length, -rs_stream_take_error(st));
	case SO_TYPE:
		return put_int(value, length, SOCK_STREAM);
	case SO_DOMAIN:
		return put_int(value, length, st->s.domain);
	case SO_PROTOCOL:
		return put_int(value, length, IPPROTO_TCP);
	case SO_ACCEPTCONN:
		return put_int(value, length, st->state == RS_LISTENING);
	case SO_BROADCAST: /* of datagram sockets; off */
		return put_int(value, length, 0);
	default:
		return -ENOTSUP;
	}
}

/* Without a path the answer is that of rdma-core, the MTU that all InfiniBand switches support. */
#define UNKNOWN_SEGMENT 2048

static int segment(struct rs_stream *st)
{
	if (st->id->route.num_paths < 1 || !st->id->route.path_rec)
		return UNKNOWN_SEGMENT;
	return 128 << st->id->route.path_rec->mtu; /* enum ibv_mtu */
}

static int get_tcp(struct rs_stream *st, int name, void *value, socklen_t *length)
{
	struct tcp_info info = { .tcpi_state = st->state == RS_CONNECTED   ? TCP_ESTABLISHED
					       : st->state == RS_LISTENING ? TCP_LISTEN
									   : TCP_CLOSE,
				 .tcpi_snd_cwnd = st->send_queue };

	switch (name) {
	case TCP_NODELAY:
		return put_int(value, length, st->no_delay);
	case TCP_KEEPIDLE:
		return put_int(value, length, rs_keepalive_idle(st));
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_CONGESTION:
		return put_int(value, length, 1);
	case TCP_MAXSEG:
		return put_int(value, length, segment(st));
	case TCP_INFO:
		return put(value, length, &info, sizeof(info));
	default:
		return -ENOTSUP;
	}
}

#define EXACTLY (2 << 6) /* the selector of MTU, rate and life time in a path record */

/* A path as a path record of the subnet administrator: RDMA_ROUTE takes and gives those. */
static struct ibv_path_data path_data(const struct ibv_sa_path_rec *path)
{
	return (struct ibv_path_data){
		.flags = path->preference,
		.path = {
			.dgid = path->dgid,
			.sgid = path->sgid,
			.dlid = path->dlid,
			.slid = path->slid,
			.flowlabel_hoplimit = htobe32(be32toh(path->flow_label) << 8 | path->hop_limit),
			.tclass = path->traffic_class,
			.reversible_numpath = (uint8_t)(path->reversible << 7 | 1),
			.pkey = path->pkey,
			.qosclass_sl = htobe16(path->sl),
			.mtu = path->mtu | EXACTLY,
			.rate = path->rate | EXACTLY,
			.packetlifetime = path->packet_life_time | EXACTLY,
		},
	};
}

static int get_route(struct rs_stream *st, void *value, socklen_t *length)
{
	socklen_t size = 0;

	if (st->route) {
		if (*length < st->route_length)
			return -EINVAL;
		return put(value, length, st->route, (socklen_t)st->route_length);
	}
	if (*length < sizeof(struct ibv_path_data))
		return -EINVAL;
	for (int i = 0;
	     i < st->id->route.num_paths && size + sizeof(struct ibv_path_data) <= *length; i++) {
		struct ibv_path_data data = path_data(&st->id->route.path_rec[i]);

		memcpy((uint8_t *)value + size, &data, sizeof(data));
		size += sizeof(data);
	}
	*length = size;
	return 0;
}

static int get_rdma(struct rs_stream *st, int name, void *value, socklen_t *length)
{
	switch (name) {
	case RDMA_SQSIZE:
		return put_int(value, length, (int)st->send_queue);
	case RDMA_RQSIZE:
		return put_int(value, length, (int)st->receive_queue);
	case RDMA_INLINE:
		return put_int(value, length, (int)st->inline_data);
	case RDMA_IOMAPSIZE:
		return put_int(value, length, (int)st->iomap_size);
	case RDMA_ROUTE:
		return get_route(st, value, length);
	default:
		return -ENOTSUP;
	}
}

int rs_stream_getsockopt(struct rs_socket *s, int level, int name, void *value, socklen_t *length)
{
	struct rs_stream *st = rs_stream(s);
	int error = -ENOTSUP;

	if (!value || !length)
		return -EFAULT;
	pthread_mutex_lock(&s->mu);
	switch (level) {
	case SOL_SOCKET:
		error = get_socket(st, name, value, length);
		break;
	case IPPROTO_TCP:
		error = get_tcp(st, name, value, length);
		break;
	case IPPROTO_IP:
		if (name == IP_TOS)
			error = put_int(value, length, st->tos);
		break;
	case IPPROTO_IPV6:
		if (name == IPV6_V6ONLY)
			error = put_int(value, length, st->v6_only);
		break;
	case SOL_RDMA:
		error = get_rdma(st, name, value, length);
		break;
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}
