/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and answers over TCP: one thread, epoll, non-blocking sockets. */
#include "requests.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define CHUNK (256 << 10) /* bytes of a read or write */

struct conn {
	int fd;
	int part;  /* server: bytes of a request that is not whole; client: of an answer */
	long owed; /* bytes to write */
	long sent; /* bytes written */
	int blocked;
};

static char in[CHUNK], *out; /* out repeats one answer, or one request */
static int unit;             /* its bytes */

static void prepare(int bytes)
{
	unit = bytes;
	CHECK(out = calloc(1, CHUNK + bytes));
}

/* Writes pending bytes, until the socket takes no more. */
static void flush(int epoll, struct conn *c)
{
	int blocked;

	while (c->owed > 0) {
		long off = c->sent % unit, most = CHUNK + unit - off;
		ssize_t n = write(c->fd, out + off, c->owed < most ? c->owed : most);

		if (n < 0) {
			CHECK(errno == EAGAIN);
			break;
		}
		c->owed -= n;
		c->sent += n;
	}
	blocked = c->owed > 0;
	if (blocked != c->blocked) {
		c->blocked = blocked;
		watch_fd(epoll, EPOLL_CTL_MOD, c->fd, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, c);
	}
}

/* Reads at most a chunk; 0 is nothing, -1 the end. */
static ssize_t take(struct conn *c)
{
	ssize_t n = read(c->fd, in, sizeof in);

	if (n < 0) {
		CHECK(errno == EAGAIN || errno == ECONNRESET);
		return errno == EAGAIN ? 0 : -1;
	}
	return n ? n : -1;
}

static struct conn *make(int epoll, int fd)
{
	struct conn *c = calloc(1, sizeof *c);
	int on = 1;

	CHECK(c && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	c->fd = fd;
	watch_fd(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, c);
	return c;
}

static void serve(struct options *o)
{
	int epoll = watch(), on = 1, left = o->clients;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct epoll_event events[EVENTS];

	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
	CHECK(bind(listener, (struct sockaddr *)&o->addr, sizeof o->addr) == 0);
	CHECK(listen(listener, 4096) == 0);
	watch_fd(epoll, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
	prepare(o->value);
	say("ready", 0, 0);
	while (left > 0) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		CHECK(n >= 0 || errno == EINTR);
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			ssize_t got;

			if (!c) {
				int fd = accept(listener, NULL, NULL);

				if (fd >= 0)
					make(epoll, fd);
				continue;
			}
			if ((got = take(c)) < 0) {
				close(c->fd);
				free(c);
				left--;
				continue;
			}
			c->part += got;
			c->owed += (long)(c->part / REQUEST) * o->value;
			c->part %= REQUEST;
			flush(epoll, c);
		}
	}
}

static void ask(struct options *o)
{
	int epoll = watch();
	struct conn **all = calloc(o->clients, sizeof *all);
	struct epoll_event events[EVENTS];
	double start = now(), end;
	long answers = 0;

	CHECK(all);
	prepare(REQUEST);
	for (int i = 0; i < o->clients; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&o->addr, sizeof o->addr) == 0);
		all[i] = make(epoll, fd);
	}
	say("connected", o->clients, now() - start);
	await_line();
	start = now();
	end = start + o->seconds;
	for (int i = 0; i < o->clients; i++) {
		all[i]->owed = (long)o->depth * REQUEST;
		flush(epoll, all[i]);
	}
	while (now() < end) {
		int n = epoll_wait(epoll, events, EVENTS, (end - now()) * 1e3 + 1);

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			ssize_t got = take(c);
			long whole;

			CHECK(got >= 0);
			c->part += got;
			whole = c->part / o->value;
			c->part %= o->value;
			c->owed += whole * REQUEST;
			answers += whole;
			flush(epoll, c);
		}
	}
	say("answered", answers, now() - start);
	await_line();
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	int server = parse(argc, argv, &o);
	struct rlimit files;

	CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	if (server)
		serve(&o);
	else
		ask(&o);
	return 0;
}
