/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads its own counters below /sys/class/infiniband while its queue pairs live: by every call that
 * opens a file or a directory. The program gets no child and no SIGCHLD by that.
 */
#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNTED "/sys/class/infiniband/roce_lo/ports/1/"
#define SENT COUNTED "hw_counters/sent_pkts"

static volatile sig_atomic_t children;

static void count_child(int sig)
{
	(void)sig;
	children++;
}

static unsigned long long value_of(int fd)
{
	char text[32] = "";

	MUST(fd >= 0 && read(fd, text, sizeof text - 1) > 1 && close(fd) == 0);
	return strtoull(text, NULL, 10);
}

static unsigned long long by_open(void)
{
	return value_of(open(SENT, O_RDONLY));
}

static unsigned long long by_openat(void)
{
	return value_of(openat(AT_FDCWD, SENT, O_RDONLY));
}

static unsigned long long by_fopen(void)
{
	unsigned long long v = 0;
	FILE *f = fopen(SENT, "r");

	MUST(f && fscanf(f, "%llu", &v) == 1 && fclose(f) == 0);
	return v;
}

static unsigned long long by_opendir(void)
{
	DIR *d = opendir(COUNTED "hw_counters");
	unsigned long long v;

	MUST(d);
	v = value_of(openat(dirfd(d), "sent_pkts", O_RDONLY));
	MUST(closedir(d) == 0);
	return v;
}

static unsigned long long by_chdir(void)
{
	unsigned long long v;

	MUST(chdir(COUNTED "hw_counters") == 0);
	v = value_of(open("sent_pkts", O_RDONLY));
	MUST(chdir("/") == 0);
	return v;
}

int main(void)
{
	static unsigned long long (*const ways[])(void) = { by_open, by_openat, by_fopen, by_opendir,
							     by_chdir };
	struct ibv_context *ctx = open_loopback();
	unsigned long long before = by_open();
	struct ibv_wc wc;
	struct end a, b;

	signal(SIGCHLD, count_child);
	pair(&a, &b, ctx, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, i, 5000, (uintptr_t)b.buf, b.mr->rkey), 0);
		MUST(wait_wc(a.cq, &wc) == 1);
		while (ways[i]() <= before)
			; /* values may be as old as the file lifespan says */
		before = by_open();
	}
	EQUAL(value_of(open(COUNTED "hw_counters/lifespan", O_RDONLY)), 10);
	MUST(value_of(open(COUNTED "counters/port_xmit_packets", O_RDONLY)) >= before);
	errno = 0;
	MUST(open(COUNTED "hw_counters/none", O_RDONLY) == -1 && errno == ENOENT);
	errno = 0;
	MUST(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
	EQUAL(children, 0);
	unpair(&a, &b);
	printf("%llu\n", before);
	return finish(ctx);
}
