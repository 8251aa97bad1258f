/* SPDX-License-Identifier: BSD-2-Clause */
/* Options and refusals. */
#include "rsocket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

static int get(int s, int level, int name)
{
	int n = -12345;
	socklen_t length = sizeof(n);

	CHECK(rgetsockopt(s, level, name, &n, &length) == 0 && length == sizeof(n));
	return n;
}

static void set(int s, int level, int name, int n)
{
	CHECK(rsetsockopt(s, level, name, &n, sizeof(n)) == 0);
}

static void options(const char *arg)
{
	int ends[2], s = rsocket(AF_INET, SOCK_STREAM, 0);
	struct linger linger = { 1, 3 };
	socklen_t length = sizeof(linger);

	set(s, SOL_SOCKET, SO_RCVBUF, 50000);
	CHECK(get(s, SOL_SOCKET, SO_RCVBUF) == 100000); /* doubled: socket(7) */
	set(s, SOL_SOCKET, SO_SNDBUF, 1);
	CHECK(get(s, SOL_SOCKET, SO_SNDBUF) == 4096);
	set(s, IPPROTO_TCP, TCP_NODELAY, 1);
	CHECK(get(s, IPPROTO_TCP, TCP_NODELAY) == 1);
	set(s, SOL_SOCKET, SO_REUSEADDR, 1);
	CHECK(get(s, SOL_SOCKET, SO_REUSEADDR) == 1);
	set(s, IPPROTO_TCP, TCP_KEEPIDLE, 7);
	CHECK(get(s, IPPROTO_TCP, TCP_KEEPIDLE) == 7);
	set(s, SOL_SOCKET, SO_KEEPALIVE, 1);
	CHECK(get(s, SOL_SOCKET, SO_KEEPALIVE) == 1);
	set(s, SOL_RDMA, RDMA_SQSIZE, 100);
	set(s, SOL_RDMA, RDMA_RQSIZE, 1 << 20);
	set(s, SOL_RDMA, RDMA_INLINE, 0);
	set(s, SOL_RDMA, RDMA_IOMAPSIZE, 300);
	CHECK(get(s, SOL_RDMA, RDMA_SQSIZE) == 100 && get(s, SOL_RDMA, RDMA_RQSIZE) == 0xfffe);
	CHECK(get(s, SOL_RDMA, RDMA_INLINE) == 0 && get(s, SOL_RDMA, RDMA_IOMAPSIZE) == 256); /* in units of 256 */
	CHECK(get(s, SOL_SOCKET, SO_TYPE) == SOCK_STREAM && get(s, SOL_SOCKET, SO_DOMAIN) == AF_INET);
	CHECK(rsetsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	memset(&linger, 0, sizeof(linger));
	CHECK(rgetsockopt(s, SOL_SOCKET, SO_LINGER, &linger, &length) == 0 && linger.l_onoff == 1 && linger.l_linger == 3);
	CHECK_FAILS(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &linger, sizeof(linger)), ENOTSUP);
	CHECK_FAILS(rsetsockopt(s, 4711, 1, &linger, sizeof(linger)), ENOTSUP);
	CHECK_FAILS(rsetsockopt(s, SOL_SOCKET, SO_RCVBUF, &linger, 1), EINVAL);
	CHECK_FAILS(rsetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 0 }, sizeof(int)), EINVAL);
	CHECK_FAILS(rfcntl(s, F_GETLK, NULL), ENOTSUP);
	CHECK(rclose(s) == 0);

	rs_pair(arg, ends);
	CHECK_FAILS(rsetsockopt(ends[0], SOL_RDMA, RDMA_SQSIZE, &(int){ 9 }, sizeof(int)), EINVAL);
	struct ibv_path_data path[2];

	length = sizeof(path);
	CHECK(rgetsockopt(ends[0], SOL_RDMA, RDMA_ROUTE, path, &length) == 0 && length == sizeof(path[0]));
	CHECK(get(ends[0], IPPROTO_TCP, TCP_MAXSEG) >= 256);
	rs_close_pair(ends);
}

/* Numbers that are no rsockets, or are descriptors of another kind. */
static void refusals(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t length = sizeof(addr);
	struct iovec iov = { &addr, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int numbers[] = { -1, 0, 1 << 20, 1000 }, s;

	for (int i = 0; i < 4; i++) {
		int n = numbers[i];

		CHECK_FAILS(rbind(n, (struct sockaddr *)&addr, length), EBADF);
		CHECK_FAILS(rlisten(n, 1), EBADF);
		CHECK_FAILS(raccept(n, NULL, NULL), EBADF);
		CHECK_FAILS(rconnect(n, (struct sockaddr *)&addr, length), EBADF);
		CHECK_FAILS(rshutdown(n, SHUT_WR), EBADF);
		CHECK_FAILS(rclose(n), EBADF);
		CHECK_FAILS(rrecv(n, &addr, 1, 0), EBADF);
		CHECK_FAILS(rrecvfrom(n, &addr, 1, 0, NULL, NULL), EBADF);
		CHECK_FAILS(rrecvmsg(n, &msg, 0), EBADF);
		CHECK_FAILS(rsend(n, &addr, 1, 0), EBADF);
		CHECK_FAILS(rsendto(n, &addr, 1, 0, NULL, 0), EBADF);
		CHECK_FAILS(rsendmsg(n, &msg, 0), EBADF);
		CHECK_FAILS(rread(n, &addr, 1), EBADF);
		CHECK_FAILS(rreadv(n, &iov, 1), EBADF);
		CHECK_FAILS(rwrite(n, &addr, 1), EBADF);
		CHECK_FAILS(rwritev(n, &iov, 1), EBADF);
		CHECK_FAILS(rgetpeername(n, (struct sockaddr *)&addr, &length), EBADF);
		CHECK_FAILS(rgetsockname(n, (struct sockaddr *)&addr, &length), EBADF);
		CHECK_FAILS(rsetsockopt(n, SOL_SOCKET, SO_REUSEADDR, &addr, 4), EBADF);
		CHECK_FAILS(rgetsockopt(n, SOL_SOCKET, SO_ERROR, &addr, &length), EBADF);
		CHECK_FAILS(rfcntl(n, F_GETFL), EBADF);
		CHECK_FAILS(riomap(n, &addr, 1, PROT_WRITE, 0, -1), EBADF);
		CHECK_FAILS(riounmap(n, &addr, 1), EBADF);
		CHECK_FAILS((ssize_t)riowrite(n, &addr, 1, 0, 0), EBADF);
	}
	CHECK_FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	CHECK_FAILS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	CHECK_FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	s = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_FAILS(raccept(s, NULL, NULL), EINVAL);
	CHECK_FAILS(rshutdown(s, SHUT_RDWR), ENOTCONN);
	CHECK_FAILS(riomap(s, &addr, 1, PROT_WRITE, 0, -1), EINVAL);
	CHECK_FAILS(riomap(s, &addr, 1, PROT_READ, 0, -1), EINVAL);
	CHECK_FAILS(rconnect(s, (struct sockaddr *)&addr, 3), EINVAL);
	addr.sin_family = AF_UNIX;
	CHECK_FAILS(rbind(s, (struct sockaddr *)&addr, length), EAFNOSUPPORT);
	length = sizeof(addr);
	CHECK(rgetsockname(s, (struct sockaddr *)&addr, &length) == 0 && addr.sin_family == AF_INET && !addr.sin_port);
	CHECK(rclose(s) == 0);
	CHECK_FAILS(rclose(s), EBADF);
}

int main(int argc, char **argv)
{
	(void)argc;
	options(argv[1]);
	refusals();
	return 0;
}
