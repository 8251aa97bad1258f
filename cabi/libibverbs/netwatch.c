/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A netlink socket that gets a message from the kernel with each change, before the command that
 * caused it returns. One system call shows that there is none, where listing addresses takes dozens
 * of microseconds.
 *
 * The application may have closed the socket with all others, and opened a file of its own under
 * the number. So the call must be harmless to any file: getsockopt(SO_MEMINFO). It also identifies
 * our socket, by two random buffer sizes.
 *
 * Spec: netlink(7), rtnetlink(7)
 */
#define _GNU_SOURCE
#include "netwatch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

/* The range of sizes that the kernel grants every process. */
#define LEAST_BUFFER 8192
#define BUFFER_SIZES 65536

static int sock = -1;
static uint32_t rcvbuf, sndbuf; /* as the kernel rounds them */
static uint32_t dropped;	/* messages dropped for want of room */

/* Reads how full the socket is. */
static int ask(uint32_t info[SK_MEMINFO_VARS])
{
	socklen_t size = SK_MEMINFO_VARS * sizeof(*info);

	return getsockopt(sock, SOL_SOCKET, SO_MEMINFO, info, &size) == 0 &&
	       size >= SK_MEMINFO_VARS * sizeof(*info);
}

static int is_ours(uint32_t info[SK_MEMINFO_VARS])
{
	return sock >= 0 && ask(info) && info[SK_MEMINFO_RCVBUF] == rcvbuf &&
	       info[SK_MEMINFO_SNDBUF] == sndbuf;
}

static int set_buffer(int option, uint16_t random)
{
	int size = LEAST_BUFFER + random % BUFFER_SIZES;

	return setsockopt(sock, SOL_SOCKET, option, &size, sizeof(size));
}

static void subscribe(void)
{
	struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	uint32_t info[SK_MEMINFO_VARS];
	uint16_t random[2];

	sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (sock < 0)
		return;
	if (getrandom(random, sizeof(random), 0) != sizeof(random) ||
	    set_buffer(SO_RCVBUF, random[0]) || set_buffer(SO_SNDBUF, random[1]) ||
	    bind(sock, (struct sockaddr *)&groups, sizeof(groups)) || !ask(info)) {
		close(sock); /* SO_MEMINFO needs Linux 4.12 */
		sock = -1;
		return;
	}
	rcvbuf = info[SK_MEMINFO_RCVBUF];
	sndbuf = info[SK_MEMINFO_SNDBUF];
	dropped = info[SK_MEMINFO_DROPS];
}

/* Discards the messages: a change makes the caller read all anew. */
static void drain(void)
{
	char some;

	while (recv(sock, &some, sizeof(some), MSG_DONTWAIT) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}

int vb_net_unchanged(void)
{
	uint32_t info[SK_MEMINFO_VARS];
	int before = errno;

	if (is_ours(info)) {
		if (!info[SK_MEMINFO_RMEM_ALLOC] && info[SK_MEMINFO_DROPS] == dropped)
			return 1;
		dropped = info[SK_MEMINFO_DROPS];
		drain();
	} else {
		subscribe(); /* the first call, or our socket is gone */
	}
	errno = before;
	return 0;
}

void vb_net_after_fork_in_child(void)
{
	uint32_t info[SK_MEMINFO_VARS];
	int before = errno;

	if (is_ours(info))
		close(sock);
	sock = -1;
	errno = before;
}
