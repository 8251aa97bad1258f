/* SPDX-License-Identifier: BSD-2-Clause */
/* errno after each function of rsocket(7): calls.h. */
#include "calls.h"
#include "rsocket.h"

#include <sys/mman.h>
#include <sys/select.h>

#define PLENTY 65536

/* No socket has this number. */
#define NONE 12345

int main(int argc, char **argv)
{
	struct sockaddr_in addr, got;
	struct sockaddr *sa = (struct sockaddr *)&addr;
	socklen_t length = sizeof(addr), size;
	char *buf = aligned_alloc(4096, PLENTY);
	struct iovec iov = {.iov_base = buf, .iov_len = 10};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct timeval soon = {0};
	int ends[2], listener, value;
	struct pollfd p;
	off_t offset;
	fd_set set;

	CHECK(argc > 1 && buf);
	memset(buf, 1, PLENTY);
	addr = rs_address(argv[1], 0);
	FAILS_MINUS(rsocket, (AF_UNIX, SOCK_STREAM, 0));
	listener = SUCCEEDS(rsocket, (AF_INET, SOCK_STREAM, 0), >= 0); /* the engine is loaded */
	SUCCEEDS(rbind, (listener, sa, sizeof(addr)), == 0);
	FAILS_MINUS(rbind, (NONE, sa, sizeof(addr)));
	SUCCEEDS(rlisten, (listener, 1), == 0);
	FAILS_MINUS(rlisten, (NONE, 1));
	SUCCEEDS(rgetsockname, (listener, sa, &length), == 0);
	FAILS_MINUS(rgetsockname, (NONE, sa, &length));
	SUCCEEDS(rfcntl, (listener, F_SETFL, O_NONBLOCK), == 0);
	FAILS_MINUS(rfcntl, (listener, F_DUPFD, 0));
	FAILS_MINUS(raccept, (listener, NULL, NULL)); /* EAGAIN */
	SUCCEEDS(rfcntl, (listener, F_SETFL, 0), == 0);

	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	value = 4;
	SUCCEEDS(rsetsockopt, (ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &value, sizeof(value)), == 0);
	FAILS_MINUS(rsetsockopt, (ends[0], 77, 77, &value, sizeof(value)));
	CHECK(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &value, sizeof(value)) == 0);
	size = sizeof(value);
	SUCCEEDS(rgetsockopt, (ends[0], SOL_SOCKET, SO_SNDBUF, &value, &size), == 0);
	FAILS_MINUS(rgetsockopt, (ends[0], 77, 77, &value, &size));
	SUCCEEDS(rconnect, (ends[0], sa, sizeof(addr)), == 0);
	FAILS_MINUS(rconnect, (NONE, sa, sizeof(addr)));
	ends[1] = SUCCEEDS(raccept, (listener, NULL, NULL), >= 0);
	length = sizeof(got);
	SUCCEEDS(rgetpeername, (ends[0], (struct sockaddr *)&got, &length), == 0);
	FAILS_MINUS(rgetpeername, (NONE, (struct sockaddr *)&got, &length));

	struct epoll_event event = {.events = EPOLLOUT};

	value = SUCCEEDS(repoll_create, (0), >= 0);
	FAILS_MINUS(repoll_create, (1 << 30));
	SUCCEEDS(repoll_ctl, (value, EPOLL_CTL_ADD, ends[0], &event), == 0);
	FAILS_MINUS(repoll_ctl, (value, EPOLL_CTL_ADD, ends[0], &event));
	SUCCEEDS(repoll_wait, (value, &event, 1, -1), == 1);
	FAILS_MINUS(repoll_wait, (value, &event, 0, -1));
	CHECK(rclose(value) == 0);

	SUCCEEDS(rsend, (ends[0], buf, 10, 0), == 10);
	SUCCEEDS(rwrite, (ends[0], buf, 10), == 10);
	SUCCEEDS(rwritev, (ends[0], &iov, 1), == 10);
	SUCCEEDS(rsendto, (ends[0], buf, 10, 0, NULL, 0), == 10);
	SUCCEEDS(rsendmsg, (ends[0], &msg, 0), == 10);
	SUCCEEDS(rrecv, (ends[1], buf, 10, MSG_WAITALL), == 10);
	SUCCEEDS(rread, (ends[1], buf, 10), == 10);
	SUCCEEDS(rreadv, (ends[1], &iov, 1), == 10);
	SUCCEEDS(rrecvfrom, (ends[1], buf, 10, 0, NULL, NULL), == 10);
	SUCCEEDS(rrecvmsg, (ends[1], &msg, 0), == 10);
	FAILS_MINUS(rsend, (NONE, buf, 10, 0));
	FAILS_MINUS(rwrite, (NONE, buf, 10));
	FAILS_MINUS(rwritev, (NONE, &iov, 1));
	FAILS_MINUS(rsendto, (NONE, buf, 10, 0, NULL, 0));
	FAILS_MINUS(rsendmsg, (NONE, &msg, 0));
	FAILS_MINUS(rrecv, (ends[1], buf, 10, MSG_DONTWAIT));
	FAILS_MINUS(rread, (NONE, buf, 10));
	FAILS_MINUS(rreadv, (NONE, &iov, 1));
	FAILS_MINUS(rrecvfrom, (ends[1], buf, 10, MSG_DONTWAIT, NULL, NULL));
	FAILS_MINUS(rrecvmsg, (ends[1], &msg, MSG_DONTWAIT));

	p = (struct pollfd){.fd = ends[0], .events = POLLOUT};
	SUCCEEDS(rpoll, (&p, 1, 1000), == 1);
	p.events = POLLIN;
	SUCCEEDS(rpoll, (&p, 1, 1), == 0); /* it sleeps */
	FAILS_MINUS(rpoll, (NULL, 1 << 30, 0));
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	SUCCEEDS(rselect, (ends[0] + 1, NULL, &set, NULL, &soon), == 1);
	FAILS_MINUS(rselect, (-1, NULL, NULL, NULL, &soon));

	offset = SUCCEEDS(riomap, (ends[1], buf, PLENTY, PROT_WRITE, 0, -1), >= 0);
	FAILS_MINUS(riomap, (NONE, buf, PLENTY, PROT_WRITE, 0, -1));
	CHECK(rsend(ends[1], buf, 1, 0) == 1 && rrecv(ends[0], buf, 1, 0) == 1); /* the mapping is there */
	SUCCEEDS(riowrite, (ends[0], buf, 10, offset, 0), == 10);
	FAILS(riowrite, (NONE, buf, 10, offset, 0), r == (size_t)-1, 1);
	CHECK(rsend(ends[0], buf, 1, 0) == 1 && rrecv(ends[1], buf, 1, 0) == 1);
	SUCCEEDS(riounmap, (ends[1], buf, PLENTY), == 0);
	FAILS_MINUS(riounmap, (ends[1], buf, PLENTY));

	SUCCEEDS(rshutdown, (ends[0], SHUT_WR), == 0);
	FAILS_MINUS(rshutdown, (NONE, SHUT_WR));
	SUCCEEDS(rclose, (listener), == 0);
	FAILS_MINUS(rclose, (NONE));
	rs_close_pair(ends);
	free(buf);
	return wrong != 0;
}
