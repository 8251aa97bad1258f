/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket of NETLINK_RDMA as programs use it: addresses, options, answers that name this process's
 * queue pairs, and refusals of requests that are malformed.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

/* As the program rdma has it. */
#define ROOM 4096

struct request {
	struct nlmsghdr h;
	struct nlattr attr;
	unsigned value;
};

static int opened(int flags)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_RDMA), one = 1;
	socklen_t length = sizeof addr;

	MUST(fd >= 0);
	CHECK(!!(fcntl(fd, F_GETFD) & FD_CLOEXEC) == !!(flags & SOCK_CLOEXEC));
	CHECK(!!(fcntl(fd, F_GETFL) & O_NONBLOCK) == !!(flags & SOCK_NONBLOCK));
	MUST(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof one) == 0);
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &one, sizeof one) == 0);
	MUST(bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
	memset(&addr, 0xff, sizeof addr);
	MUST(getsockname(fd, (struct sockaddr *)&addr, &length) == 0);
	CHECK(length == sizeof addr && addr.nl_family == AF_NETLINK && addr.nl_pid == (unsigned)getpid());
	return fd;
}

/* Receives an answer, with the address that programs check. */
static ssize_t receive(int fd, void *b)
{
	struct sockaddr_nl from;
	struct iovec iov = { b, ROOM };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	MUST(poll(&p, 1, 60000) == 1);
	n = recvmsg(fd, &m, 0);
	CHECK(m.msg_namelen == sizeof from && from.nl_family == AF_NETLINK && from.nl_pid == 0);
	CHECK(!(m.msg_flags & MSG_TRUNC));
	return n;
}

/* Sends a request, and returns the error that answers it. */
static int refused(int fd, const void *request, size_t bytes)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	char b[ROOM];
	struct nlmsghdr *h = (struct nlmsghdr *)b;

	MUST(sendto(fd, request, bytes, 0, (struct sockaddr *)&kernel, sizeof kernel) == (ssize_t)bytes);
	MUST(receive(fd, b) >= (ssize_t)sizeof *h);
	EQUAL(h->nlmsg_type, NLMSG_ERROR);
	return -*(int *)NLMSG_DATA(h);
}

static struct request ask(int command, int flags, unsigned attr, unsigned value)
{
	return (struct request){
		.h = { sizeof(struct request), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_REQUEST | flags, 7, 0 },
		.attr = { NLA_HDRLEN + sizeof value, attr },
		.value = value,
	};
}

static void hostile(int fd)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, 0, RDMA_NLDEV_ATTR_DEV_INDEX, 4096);

	EQUAL(refused(fd, &r, sizeof r), ENODEV);
	r = ask(RDMA_NLDEV_CMD_NEWLINK, 0, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	EQUAL(refused(fd, &r, sizeof r), EOPNOTSUPP);
	r = ask(1023, NLM_F_DUMP, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	EQUAL(refused(fd, &r, sizeof r), EINVAL);
	r = ask(RDMA_NLDEV_CMD_GET, 0, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	r.attr.nla_len = 0xfff0; /* beyond the message */
	EQUAL(refused(fd, &r, sizeof r), EINVAL);
	r.attr.nla_len = 0;
	EQUAL(refused(fd, &r, sizeof r), EINVAL);
	r.h.nlmsg_type = 0xffff;
	EQUAL(refused(fd, &r, sizeof r), EINVAL);
	/* Not even a header, more than there is, and nothing: no answer, as from the kernel. */
	EQUAL(send(fd, &r, 3, 0), 3);
	r.h.nlmsg_len = 1 << 30;
	EQUAL(send(fd, &r, sizeof r, 0), sizeof r);
	EQUAL(send(fd, &r, 0, 0), 0);
	r = ask(RDMA_NLDEV_CMD_GET, 0, RDMA_NLDEV_ATTR_DEV_INDEX, 4097);
	EQUAL(refused(fd, &r, sizeof r), ENODEV); /* the next one is answered */
}

/* Returns the index of a device. */
static unsigned index_of(int fd, const char *name)
{
	char b[ROOM];

	for (unsigned i = 0; i < 1000; i++) {
		struct request r = ask(RDMA_NLDEV_CMD_GET, 0, RDMA_NLDEV_ATTR_DEV_INDEX, i);
		ssize_t n;

		MUST(send(fd, &r, sizeof r, 0) == sizeof r);
		n = receive(fd, b);
		MUST(n >= NLMSG_HDRLEN);
		if (memmem(b, n, name, strlen(name) + 1))
			return i;
	}
	MUST(!"a device of that name");
	return 0;
}

/* Returns whether the dump of a device's queue pairs has a number. */
static int lists(int fd, unsigned device, unsigned qpn)
{
	struct request r = ask(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, RDMA_NLDEV_ATTR_DEV_INDEX, device);
	struct nlattr want = { NLA_HDRLEN + sizeof qpn, RDMA_NLDEV_ATTR_RES_LQPN };
	char b[ROOM], attr[NLA_HDRLEN + sizeof qpn];
	int found = 0;

	memcpy(attr, &want, NLA_HDRLEN);
	memcpy(attr + NLA_HDRLEN, &qpn, sizeof qpn);
	MUST(send(fd, &r, sizeof r, 0) == sizeof r);
	for (;;) {
		ssize_t n = receive(fd, b);

		MUST(n >= NLMSG_HDRLEN && ((struct nlmsghdr *)b)->nlmsg_seq == 7);
		if (((struct nlmsghdr *)b)->nlmsg_type == NLMSG_DONE)
			return found;
		found |= memmem(b, n, attr, sizeof attr) != NULL;
	}
}

/* Two sockets that are open at a time are known, however many there were before. */
static void many(void)
{
	struct request r = ask(RDMA_NLDEV_CMD_GET, 0, RDMA_NLDEV_ATTR_DEV_INDEX, 4096);
	int first, second;

	for (int i = 0; i < 70; i++)
		close(opened(0));
	first = opened(0);
	second = opened(0);
	EQUAL(refused(first, &r, sizeof r), ENODEV);
	EQUAL(refused(second, &r, sizeof r), ENODEV);
	close(first);
	close(second);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	int fd = opened(0), other = opened(SOCK_CLOEXEC | SOCK_NONBLOCK), plain;
	struct end a, b;
	unsigned device;
	char byte;

	hostile(fd);
	pair(&a, &b, ctx, IBV_QPT_RC);
	device = index_of(fd, ibv_get_device_name(ctx->device));
	CHECK(lists(fd, device, a.qp->qp_num) && lists(fd, device, b.qp->qp_num));
	EQUAL(recv(other, &byte, 1, 0), -1);
	EQUAL(errno, EAGAIN);
	close(fd);
	close(other);
	/* Another socket of the number is an ordinary one. */
	plain = socket(AF_UNIX, SOCK_DGRAM, 0);
	EQUAL(plain, fd);
	EQUAL(bind(plain, NULL, 0), -1);
	many();
	unpair(&a, &b);
	return finish(ctx);
}
