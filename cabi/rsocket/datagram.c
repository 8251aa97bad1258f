/* SPDX-License-Identifier: BSD-2-Clause */
#include "datagram.h"

#include "../libibverbs/sleep.h"
#include "defaults.h"
#include "service.h"
#include "watch.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* Names the descriptor that the service has found readable. */
enum { UDP, CHANNEL };

/* How long a close waits for sends. They need no answer: each completes at once or never. */
#define LINGER_SECONDS 1

bool rs_same_addr(const union rs_addr *a, const union rs_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port && a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port &&
	       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

int rs_datagram_start(struct rs_datagram *d)
{
	union rs_addr local = { 0 };
	socklen_t length = sizeof(local);
	int error;

	if (d->started)
		return 0;
	if (getsockname(d->udp, &local.sa, &length))
		return -errno;
	if (!local.in.sin_port) { /* our datagrams name our port */
		local.sa.sa_family = (sa_family_t)d->s.domain;
		if (bind(d->udp, &local.sa, rs_addr_length(&local.sa)))
			return -errno;
	}
	error = rs_service_add(&d->s, d->udp, UDP);
	if (!error)
		error = rs_service_add(&d->s, d->channel->fd, CHANNEL);
	d->started = !error;
	return error;
}

static int datagram_bind(struct rs_socket *s, const struct sockaddr *addr, socklen_t length)
{
	struct rs_datagram *d = rs_datagram(s);

	pthread_mutex_lock(&s->mu);
	int error = bind(d->udp, addr, length) ? -errno : rs_datagram_start(d);

	pthread_mutex_unlock(&s->mu);
	return error;
}

static int datagram_listen(struct rs_socket *s, int backlog)
{
	(void)s, (void)backlog;
	return -EOPNOTSUPP;
}

static int datagram_accept(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	(void)s, (void)addr, (void)length;
	return -EOPNOTSUPP;
}

/* The queue pair is made now: answers of the peer may come before the application sends. */
static int datagram_connect(struct rs_socket *s, const struct sockaddr *addr, socklen_t length)
{
	struct rs_datagram *d = rs_datagram(s);
	union rs_addr peer = { 0 };
	int error;

	if (!addr || length < sizeof(addr->sa_family))
		return -EINVAL;
	pthread_mutex_lock(&s->mu);
	error = connect(d->udp, addr, length) ? -errno : rs_datagram_start(d);
	if (!error && addr->sa_family != AF_UNSPEC) {
		memcpy(&peer, addr, rs_addr_length(addr));
		if (!rs_peer_at(d, &peer))
			error = -errno;
	}
	if (!error)
		d->connected = peer;
	pthread_mutex_unlock(&s->mu);
	return error;
}

static int datagram_shutdown(struct rs_socket *s, int how)
{
	struct rs_datagram *d = rs_datagram(s);
	int error = 0;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	pthread_mutex_lock(&s->mu);
	if (!d->connected.sa.sa_family)
		error = -ENOTCONN;
	else if (how != SHUT_WR)
		d->may_receive = false;
	if (!error && how != SHUT_RD)
		d->may_send = false;
	rs_ring(s);
	pthread_mutex_unlock(&s->mu);
	return error;
}

static bool all_sent(struct rs_socket *s)
{
	struct rs_datagram *d = rs_datagram(s);

	for (struct rs_ud *ud = d->uds; ud; ud = ud->next) {
		if (ud->sends_free != d->send_queue)
			return false;
	}
	return true;
}

static void datagram_close(struct rs_socket *s)
{
	struct rs_datagram *d = rs_datagram(s);

	rs_service_remove(d->udp);
	rs_service_remove(d->channel->fd);
	pthread_mutex_lock(&s->mu);
	d->may_receive = d->may_send = false;
	rs_wait(s, all_sent, false, rs_now_us() + LINGER_SECONDS * 1000000);
	rs_ring(s);
	pthread_mutex_unlock(&s->mu);
}

void rs_datagram_deliver(struct rs_datagram *d, struct rs_slot *slot)
{
	slot->next = NULL;
	if (d->tail)
		d->tail->next = slot;
	else
		d->head = slot;
	d->tail = slot;
	d->from_udp += !slot->ud;
}

static void take_slot(struct rs_datagram *d)
{
	struct rs_slot *slot = d->head;

	d->head = slot->next;
	if (!d->head)
		d->tail = NULL;
	if (slot->ud) {
		rs_ud_repost(slot);
	} else {
		d->from_udp--;
		free(slot);
	}
}

static void datagram_free(struct rs_socket *s)
{
	struct rs_datagram *d = rs_datagram(s);

	rs_service_remove(d->udp);
	rs_service_remove(d->channel->fd);
	rs_peers_free(d);
	while (d->head) {
		struct rs_slot *slot = d->head;

		d->head = slot->next;
		if (!slot->ud)
			free(slot);
	}
	while (d->uds)
		rs_ud_free(d, d->uds);
	rdma_destroy_event_channel(d->channel);
	close(d->udp);
	pthread_mutex_destroy(&d->send_mu);
	pthread_mutex_destroy(&s->mu);
	free(d);
}

static bool readable(struct rs_socket *s)
{
	return rs_datagram(s)->head || !rs_datagram(s)->may_receive;
}

static ssize_t datagram_receive(struct rs_socket *s, struct msghdr *msg, int flags)
{
	struct rs_datagram *d = rs_datagram(s);
	struct rs_cursor to = rs_cursor(msg->msg_iov, msg->msg_iovlen);

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&s->mu);
	ssize_t n = rs_wait(s, readable, rs_nonblocking(s, flags), RS_FOREVER);
	struct rs_slot *slot = d->head;

	if (!n && slot) {
		n = (ssize_t)(to.left < slot->length ? to.left : slot->length);
		rs_cursor_scatter(&to, slot->data, (size_t)n);
		if ((uint32_t)n < slot->length) {
			msg->msg_flags |= MSG_TRUNC;
			if (flags & MSG_TRUNC)
				n = slot->length;
		}
		if (msg->msg_name)
			rs_copy_addr(&slot->from.sa, msg->msg_name, &msg->msg_namelen);
		if (!(flags & MSG_PEEK))
			take_slot(d);
	}
	pthread_mutex_unlock(&s->mu);
	return n;
}

static bool may_send_now(struct rs_socket *s)
{
	struct rs_datagram *d = rs_datagram(s);

	return d->sending->sends_free || !d->may_send;
}

/* The caller holds both locks. */
static ssize_t send_to(struct rs_datagram *d, const union rs_addr *to, struct rs_cursor *from,
		       int flags)
{
	size_t length = from->left;

	while (d->may_send) {
		struct rs_peer *peer = rs_peer_at(d, to); /* again: the wait may forget it */

		if (!peer)
			return -errno;
		if (peer->state != RS_PEER_KNOWN || peer->ud->header.length + length > peer->ud->mtu)
			return rs_udp_send(d, peer, RS_UDP_DATA, from);
		if (peer->ud->sends_free) {
			int error = rs_ud_send(peer, from);

			return error ? error : (ssize_t)length;
		}
		d->sending = peer->ud;
		int error = rs_wait(&d->s, may_send_now, rs_nonblocking(&d->s, flags), RS_FOREVER);

		if (error)
			return error;
	}
	return -EPIPE;
}

/* Sends to the connected peer if to has no family. The caller holds send_mu. */
static ssize_t send_locked(struct rs_datagram *d, union rs_addr to, struct rs_cursor from,
			   int flags)
{
	pthread_mutex_lock(&d->s.mu);
	if (!to.sa.sa_family)
		to = d->connected;
	ssize_t n = !to.sa.sa_family ? -EDESTADDRREQ : !d->may_send ? -EPIPE : rs_datagram_start(d);

	if (!n)
		n = send_to(d, &to, &from, flags);
	pthread_mutex_unlock(&d->s.mu);
	return n;
}

static ssize_t datagram_send(struct rs_socket *s, const struct msghdr *msg, int flags)
{
	struct rs_datagram *d = rs_datagram(s);
	union rs_addr to = { 0 };
	volatile ssize_t n;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (msg->msg_name) {
		const struct sockaddr *name = msg->msg_name;

		if (msg->msg_namelen < sizeof(name->sa_family) || name->sa_family != s->domain)
			return -EAFNOSUPPORT;
		if (msg->msg_namelen < rs_addr_length(name))
			return -EINVAL;
		memcpy(&to, name, rs_addr_length(name));
	}
	pthread_mutex_lock(&d->send_mu);
	pthread_cleanup_push(rs_unlock, &d->send_mu);
	n = send_locked(d, to, rs_cursor(msg->msg_iov, msg->msg_iovlen), flags);
	pthread_cleanup_pop(1);
	return n;
}

static int datagram_getpeername(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	return getpeername(rs_datagram(s)->udp, addr, length) ? -errno : 0;
}

static int datagram_getsockname(struct rs_socket *s, struct sockaddr *addr, socklen_t *length)
{
	return getsockname(rs_datagram(s)->udp, addr, length) ? -errno : 0;
}

/* Returns the number that an option of the queue pairs sets, or NULL. The caller holds s.mu. */
static uint32_t *number(struct rs_datagram *d, int level, int name)
{
	if (level == SOL_SOCKET)
		return name == SO_RCVBUF ? &d->receive_buffer : name == SO_SNDBUF ? &d->send_buffer : NULL;
	if (level != SOL_RDMA)
		return NULL;
	return name == RDMA_SQSIZE   ? &d->send_queue
	       : name == RDMA_RQSIZE ? &d->receive_queue
	       : name == RDMA_INLINE ? &d->inline_data
				     : NULL;
}

static int datagram_setsockopt(struct rs_socket *s, int level, int name, const void *value,
			       socklen_t length)
{
	struct rs_datagram *d = rs_datagram(s);
	int n, error = 0;

	if (level != SOL_RDMA && setsockopt(d->udp, level, name, value, length))
		return -errno;
	pthread_mutex_lock(&s->mu);
	uint32_t *option = number(d, level, name);

	if (option && level == SOL_RDMA && (!value || length < sizeof(n)))
		error = -EINVAL;
	else if (level == SOL_RDMA && (!option || d->uds))
		error = option ? -EINVAL : -ENOTSUP;
	else if (option && !d->uds) {
		memcpy(&n, value, sizeof(n));
		if (n < 0)
			error = -EINVAL;
		else
			*option = level == SOL_SOCKET ? 2 * (uint32_t)n : (uint32_t)n;
	}
	pthread_mutex_unlock(&s->mu);
	return error;
}

static int datagram_getsockopt(struct rs_socket *s, int level, int name, void *value,
			       socklen_t *length)
{
	struct rs_datagram *d = rs_datagram(s);

	if (!value || !length)
		return -EFAULT;
	pthread_mutex_lock(&s->mu);
	uint32_t *option = number(d, level, name);
	uint32_t n = option ? *option : 0;

	pthread_mutex_unlock(&s->mu);
	if (option) {
		if (*length > sizeof(n))
			*length = sizeof(n);
		memcpy(value, &n, *length);
		return 0;
	}
	if (level == SOL_RDMA)
		return -ENOTSUP;
	return getsockopt(d->udp, level, name, value, length) ? -errno : 0;
}

static void datagram_service(struct rs_socket *s, int which)
{
	struct rs_datagram *d = rs_datagram(s);

	pthread_mutex_lock(&s->mu);
	if (which == UDP)
		rs_udp_receive(d);
	else
		rs_peer_events(d);
	pthread_mutex_unlock(&s->mu);
}

static void datagram_progress(struct rs_socket *s)
{
	struct rs_datagram *d = rs_datagram(s);

	for (struct rs_ud *ud = d->uds; ud; ud = ud->next)
		rs_ud_progress(d, ud);
}

static short datagram_events(struct rs_socket *s, short wanted)
{
	struct rs_datagram *d = rs_datagram(s);
	bool room = true;

	for (struct rs_ud *ud = d->uds; ud; ud = ud->next)
		room = room && ud->sends_free;
	return (short)((readable(s) ? wanted & (POLLIN | POLLRDNORM) : 0) |
		       (room ? wanted & (POLLOUT | POLLWRNORM) : 0));
}

static int datagram_sleep_on(struct rs_socket *s, struct vb_sleep *sleep)
{
	int error = 0;

	for (struct rs_ud *ud = rs_datagram(s)->uds; ud && !error; ud = ud->next)
		error = -vb_sleep_add_cq(sleep, ud->cq);
	return error;
}

static const struct rs_ops ops = {
	.bind = datagram_bind,
	.listen = datagram_listen,
	.accept = datagram_accept,
	.connect = datagram_connect,
	.shutdown = datagram_shutdown,
	.close = datagram_close,
	.free = datagram_free,
	.receive = datagram_receive,
	.send = datagram_send,
	.getpeername = datagram_getpeername,
	.getsockname = datagram_getsockname,
	.setsockopt = datagram_setsockopt,
	.getsockopt = datagram_getsockopt,
	.service = datagram_service,
	.progress = datagram_progress,
	.events = datagram_events,
	.sleep_on = datagram_sleep_on,
};

int rs_datagram_new(int domain, struct rs_socket **s)
{
	const struct rs_default_values *defaults = rs_defaults();
	struct rs_datagram *d = calloc(1, sizeof(*d));
	int error;

	if (!d)
		return -ENOMEM;
	d->udp = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	d->channel = d->udp < 0 ? NULL : rdma_create_event_channel();
	if (!d->channel || fcntl(d->channel->fd, F_SETFL, O_NONBLOCK)) {
		error = -errno;
		if (d->channel)
			rdma_destroy_event_channel(d->channel);
		if (d->udp >= 0)
			close(d->udp);
		free(d);
		return error;
	}
	rs_socket_init(&d->s, &ops, domain, SOCK_DGRAM);
	pthread_mutex_init(&d->send_mu, NULL);
	TAILQ_INIT(&d->used);
	TAILQ_INIT(&d->strangers);
	d->may_receive = d->may_send = true;
	d->send_buffer = defaults->send_buffer;
	d->receive_buffer = defaults->receive_buffer;
	d->send_queue = defaults->send_queue;
	d->receive_queue = defaults->receive_queue;
	d->inline_data = defaults->inline_data;
	*s = &d->s;
	return d->udp;
}
