/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that knows sockets only. Over the preload library its sockets are rsockets: the test
 * sees that no TCP port is listened on. It takes an address.
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int pair(const char *arg, int ends[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t length = sizeof(addr);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(inet_pton(AF_INET, arg, &addr.sin_addr) == 1);
	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	CHECK(bind(listener, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(listen(listener, 2) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&addr, &length) == 0 && addr.sin_port);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(ends[0], (struct sockaddr *)&addr, sizeof(addr)) == 0);
	ends[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(ends[1] >= 0);
	return listener;
}

/* Whether the kernel knows a TCP socket that listens on the port. */
static int kernel_listens(int listener)
{
	struct sockaddr_in addr;
	socklen_t length = sizeof(addr);
	char line[256], port[8];
	int found = 0;
	FILE *f = fopen("/proc/net/tcp", "r");

	CHECK(f && getsockname(listener, (struct sockaddr *)&addr, &length) == 0);
	snprintf(port, sizeof(port), ":%04X", ntohs(addr.sin_port));
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, port) && strstr(line, " 0A ");
	fclose(f);
	return found;
}

static void flags(int ends[2])
{
	char byte;
	int on = 0, off = 1;
	struct stat st;

	CHECK(fcntl(ends[1], F_GETFL) & O_NONBLOCK && fcntl(ends[1], F_GETFD) & FD_CLOEXEC);
	CHECK_FAILS(recv(ends[1], &byte, 1, 0), EAGAIN);
	CHECK(ioctl(ends[1], FIONBIO, &on) == 0 && !(fcntl(ends[1], F_GETFL) & O_NONBLOCK));
	CHECK(ioctl(ends[1], FIONBIO, &off) == 0 && fcntl(ends[1], F_GETFL) & O_NONBLOCK);
	CHECK(fstat(ends[0], &st) == 0 && S_ISSOCK(st.st_mode));
}

static void waits(int ends[2])
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 42 }, got[3];
	struct pollfd fd = { .fd = ends[1], .events = POLLIN };
	int pipes[2], set = epoll_create1(0);
	char buf[8];
	fd_set in;

	CHECK(pipe(pipes) == 0);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
	CHECK_FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event), EEXIST);
	event.data.u64 = 43;
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event) == 0);
	CHECK(epoll_wait(set, got, 3, 0) == 0);
	CHECK(write(ends[0], "one", 3) == 3);
	CHECK(epoll_wait(set, got, 3, 30000) == 1 && got[0].data.u64 == 42 && got[0].events == EPOLLIN);
	CHECK(write(pipes[1], "p", 1) == 1);
	CHECK(epoll_wait(set, got, 3, 30000) == 2);
	CHECK(poll(&fd, 1, 30000) == 1 && fd.revents == POLLIN);
	FD_ZERO(&in);
	FD_SET(ends[1], &in);
	CHECK(select(ends[1] + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(ends[1], &in));
	CHECK(read(ends[1], buf, sizeof(buf)) == 3);
	event = (struct epoll_event){ .events = EPOLLOUT | EPOLLONESHOT };
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event) == 0);
	CHECK(read(pipes[0], buf, 1) == 1);
	CHECK(epoll_wait(set, got, 3, 30000) == 1 && got[0].events == EPOLLOUT);
	CHECK(epoll_wait(set, got, 3, 0) == 0);
	CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL) == 0);
	close(set);
	close(pipes[0]);
	close(pipes[1]);
}

/* The descriptors of a socket may be closed in any order. */
static void duplicates(int ends[2])
{
	char buf[4];
	int copy = dup(ends[0]), high = fcntl(ends[0], F_DUPFD, 100);

	CHECK(copy >= 0 && high >= 100);
	CHECK(dup2(copy, 500) == 500);
	CHECK(close(ends[0]) == 0 && close(copy) == 0 && close(high) == 0);
	ends[0] = 500;
	CHECK(send(500, "dup", 3, 0) == 3);
	struct pollfd fd = { .fd = ends[1], .events = POLLIN };

	CHECK(poll(&fd, 1, 30000) == 1 && recv(ends[1], buf, sizeof(buf), 0) == 3);
}

static void file(int ends[2])
{
	char name[] = "/tmp/rspreload-XXXXXX", back[10000];
	static char data[200000];
	int f = mkstemp(name);
	off_t offset = 1000;
	size_t received = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 251);
	CHECK(f >= 0 && unlink(name) == 0 && write(f, data, sizeof(data)) == sizeof(data));
	CHECK(sendfile(ends[0], f, &offset, sizeof(back)) == sizeof(back) && offset == 1000 + sizeof(back));
	while (received < sizeof(back)) {
		struct pollfd fd = { .fd = ends[1], .events = POLLIN };

		CHECK(poll(&fd, 1, 30000) == 1);
		ssize_t n = recv(ends[1], back + received, sizeof(back) - received, 0);

		CHECK(n > 0);
		received += (size_t)n;
	}
	CHECK(!memcmp(back, data + 1000, sizeof(back)));
	CHECK(lseek(f, 5, SEEK_SET) == 5 && sendfile(ends[0], f, NULL, 10) == 10 && lseek(f, 0, SEEK_CUR) == 15);
	CHECK(poll(&(struct pollfd){ .fd = ends[1], .events = POLLIN }, 1, 30000) == 1 && recv(ends[1], back, 10, 0) == 10);
	close(f);
}

int main(int argc, char **argv)
{
	int ends[2], listener = pair(argv[1], ends);
	char byte;

	(void)argc;
	CHECK(!kernel_listens(listener));
	flags(ends);
	waits(ends);
	duplicates(ends);
	file(ends);
	CHECK(shutdown(ends[0], SHUT_WR) == 0);
	CHECK(poll(&(struct pollfd){ .fd = ends[1], .events = POLLIN }, 1, 30000) == 1 && recv(ends[1], &byte, 1, 0) == 0);
	CHECK(shutdown(ends[1], SHUT_WR) == 0);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(listener) == 0);
	CHECK_FAILS(send(ends[0], "x", 1, 0), EBADF);
	return 0;
}
