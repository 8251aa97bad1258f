/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the events of a device's port, and answers questions about its GID table, one per line:
 *
 *	gids       the addresses' last bytes in their order, - where an entry is free
 *	forked gids  the same of a child
 *	close      closes all descriptors
 *	list       the same from ibv_query_gid_table(3), as index:byte
 *	source N   the errno with which the engine makes an address handle from entry N
 *
 * Usage: port_watch DEVICE [objects]: without objects nothing is made but the
 * context until the first question about a source.
 */
#define _GNU_SOURCE
#include "check.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;

static void *watch(void *unused)
{
	struct ibv_async_event e;

	while (ibv_get_async_event(ctx, &e) == 0) {
		printf("event: %s, port %d\n", ibv_event_type_str(e.event_type), e.element.port_num);
		ibv_ack_async_event(&e);
	}
	return unused;
}

static void gids(void)
{
	union ibv_gid gid, none = { 0 };

	for (int i = 0; i < 6; i++) {
		CHECK(ibv_query_gid(ctx, 1, i, &gid) == 0);
		if (memcmp(&gid, &none, sizeof(gid)) == 0)
			printf(" -");
		else
			printf(" %d", gid.raw[15]);
	}
	printf("\n");
}

/* As gids, in a child. */
static void forked_gids(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		gids();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Closes all descriptors but those that this program talks by. */
static void close_all(void)
{
	CHECK(close_range(3, ~0U, 0) == 0);
	printf(" done\n");
}

static void list(void)
{
	struct ibv_gid_entry table[16];
	ssize_t n = ibv_query_gid_table(ctx, table, 16, 0);

	CHECK(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		printf(" %d:%d", table[i].gid_index, table[i].gid.raw[15]);
	printf("\n");
}

static void source(int index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = index } };
	struct ibv_ah *ah;

	if (!pd)
		CHECK(pd = ibv_alloc_pd(ctx));
	memcpy(&attr.grh.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\300\0\2\7", 16); /* 192.0.2.7 */
	errno = 0;
	ah = ibv_create_ah(pd, &attr);
	printf(" %s\n", ah ? "yes" : strerror(errno));
	if (ah)
		CHECK(ibv_destroy_ah(ah) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	char line[64];
	pthread_t t;

	CHECK(argc > 1 && devices);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; devices[i]; i++)
		if (strcmp(ibv_get_device_name(devices[i]), argv[1]) == 0)
			ctx = ibv_open_device(devices[i]);
	CHECK(ctx);
	ibv_free_device_list(devices);
	if (argc > 2)
		CHECK(pd = ibv_alloc_pd(ctx));
	CHECK(pthread_create(&t, NULL, watch, NULL) == 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "gids\n") == 0)
			gids();
		else if (strcmp(line, "forked gids\n") == 0)
			forked_gids();
		else if (strcmp(line, "close\n") == 0)
			close_all();
		else if (strcmp(line, "list\n") == 0)
			list();
		else if (strncmp(line, "source ", 7) == 0)
			source(atoi(line + 7));
		else
			return 2;
	}
	return 0;
}
