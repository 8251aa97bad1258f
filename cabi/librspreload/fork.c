/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of a fork cannot take over an RDMA connection. So the two ends connect by TCP. The
 * accepting end may move data first in any of its processes. That process listens for an rsocket on
 * the same port, sends four zero bytes over TCP, and accepts. The other end reads these bytes
 * before its first data, and connects. Both then leave TCP. The preload library of rdma-core does
 * the same.
 */
#include "fork.h"

#include "config.h"
#include "pass.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/*
 * A lock of all processes: one at a time listens on the port, which children of a server share. The
 * name is that of rdma-core.
 */
#define SEMAPHORE "/rsocket_fork"

/* Copies the options that the application has set on the TCP connection. */
static void copy_options(int fd, int number)
{
	int n;
	socklen_t length = sizeof(n);

	n = real()->fcntl(fd, F_GETFL);
	rfcntl(number, F_SETFL, n);
	if (!real()->getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &n, &length))
		rsetsockopt(number, IPPROTO_TCP, TCP_NODELAY, &n, sizeof(n));
}

/* Returns an rsocket that listens at the address of the TCP connection, or -1. */
static int listen_there(int fd)
{
	struct sockaddr_in6 addr = { 0 };
	socklen_t length = sizeof(addr);
	int one = 1;

	if (real()->getsockname(fd, (struct sockaddr *)&addr, &length))
		return -1;
	/* The address is any, the port stays: its place is the same in both families. */
	struct sockaddr_in6 any = { .sin6_family = addr.sin6_family, .sin6_port = addr.sin6_port };
	int number = rsocket(addr.sin6_family, SOCK_STREAM, 0);

	if (number < 0)
		return -1;
	config_apply(number);
	rsetsockopt(number, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!rbind(number, (struct sockaddr *)&any, length) && !rlisten(number, 1))
		return number;
	rclose(number);
	return -1;
}

/* Without the lock another process may have the port. Then the connection stays TCP. */
static int accept_there(int fd)
{
	const uint32_t ready = 0;
	int number = -1, listener = listen_there(fd);

	if (listener < 0)
		return -1;
	if (real()->write(fd, &ready, sizeof(ready)) == sizeof(ready))
		number = raccept(listener, NULL, NULL);
	rclose(listener);
	return number;
}

static int passive(int fd)
{
	sem_t *turn = sem_open(SEMAPHORE, O_CREAT | O_RDWR, 0700, 1);
	int number;

	if (turn == SEM_FAILED)
		return -1;
	while (sem_wait(turn) && errno == EINTR)
		;
	number = accept_there(fd);
	sem_post(turn);
	sem_close(turn);
	return number;
}

static int active(int fd)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	uint32_t ready;
	ssize_t n;
	int flags = real()->fcntl(fd, F_GETFL);

	real()->fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	n = real()->recv(fd, &ready, sizeof(ready), MSG_PEEK | MSG_WAITALL);
	real()->fcntl(fd, F_SETFL, flags);
	if (n != sizeof(ready) || ready || real()->getpeername(fd, (struct sockaddr *)&peer, &length))
		return -1; /* the peer goes on with TCP */
	int number = rsocket(peer.ss_family, SOCK_STREAM, 0);

	if (number < 0)
		return -1;
	config_apply(number);
	if (!rconnect(number, (struct sockaddr *)&peer, length))
		return number;
	rclose(number);
	return -1;
}

void become_rsocket(int fd)
{
	struct entry *e = table_get(fd);
	int error = errno, was;

	if (!e)
		return;
	was = atomic_load(&e->stage);
	/* One thread switches to the rsocket. Calls of other threads use TCP meanwhile. */
	if ((was == STAGE_ACTIVE || was == STAGE_PASSIVE) &&
	    atomic_compare_exchange_strong(&e->stage, &was, STAGE_TCP)) {
		int number = was == STAGE_ACTIVE ? active(fd) : passive(fd);

		if (number >= 0) {
			copy_options(fd, number);
			real()->shutdown(fd, SHUT_RDWR);
			atomic_store(&e->number, number);
			atomic_store(&e->stage, STAGE_RSOCKET);
		}
	}
	entry_put(e);
	errno = error;
}
