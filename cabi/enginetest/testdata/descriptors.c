/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptors that a forked child must close: all that the engine has opened, but those of Go's
 * own poller.
 */
#include "harness.h"

#include <dirent.h>

static int open_fds(char *set, int max)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	CHECK(d);
	memset(set, 0, max);
	for (struct dirent *f; (f = readdir(d));) {
		int fd = atoi(f->d_name);
		if (f->d_name[0] == '.' || fd == dirfd(d))
			continue;
		CHECK(fd < max);
		set[fd] = 1;
		n++;
	}
	closedir(d);
	return n;
}

static char before[1024];
static int fds[1024];

/*
 * Whether the engine names all descriptors that it has opened. It does not for a moment while
 * another process of this user connects or leaves, so the check looks twice and compares.
 */
static int all_held(int tell)
{
	static char after[1024];
	int n = e->descriptors(fds, 1024);
	CHECK(n > 4 && n < 64); /* its own sockets, not those of the whole group */
	CHECK(e->descriptors(fds + 1000, 1) == n);
	open_fds(after, sizeof after);
	for (int i = 0; i < n; i++) {
		if (fds[i] < 0 || !after[fds[i]] || before[fds[i]]) {
			if (tell)
				printf("FAIL descriptor %d is not the engine's\n", fds[i]);
			return 0;
		}
		after[fds[i]] = 0;
	}
	int go = 0;
	for (int fd = 0; fd < 1024; fd++) {
		char path[64], to[256] = "";
		if (!after[fd] || before[fd])
			continue;
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof to - 1) <= 0 || strncmp(to, "anon_inode:", 11)) {
			if (tell)
				printf("FAIL %s is not among the descriptors\n", to);
			return 0;
		}
		go++;
	}
	CHECK(go <= 2);
	return 1;
}

int main(int argc, char **argv)
{
	vb_handle ctx, pd;
	start(argc, argv);
	CHECK(e->descriptors(NULL, 0) == 0);
	open_fds(before, sizeof before);
	CALL(0, e->ctx_open(device_name, -1, &ctx));
	CALL(0, e->pd_alloc(ctx, &pd));
	struct cq *c = new_cq(ctx, 16, 0, 1);
	struct qp q = new_qp(pd, IBV_QPT_RC, c, c, 0, 9);
	connect_qp(q, q.num);
	int tries = 100;
	while (!all_held(tries == 1))
		CHECK(--tries > 0 && !usleep(10000));
	CALL(0, e->ctx_close(ctx));
	CHECK(e->descriptors(fds, 1024) == 0);
	printf("ok\n");
	return 0;
}
