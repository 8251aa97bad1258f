/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device whose memory goes away below a program, as a PCI device that is pulled out:
 *
 *	pulled FILE             a file of a link that becomes shorter
 *	pulled FOLDER DEVICE    a PCI device that reads as ones
 *
 * DEVICE_FATAL comes, and threads that sleep are woken. Requests complete with errors, calls
 * return, and all objects can be destroyed. In the second case sysfs is the program's own: a
 * folder in a mount namespace.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW (64 << 20)
#define HUNG_SECONDS 60

static void make_file(const char *name, const char *is, off_t size)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	MUST(fd >= 0);
	MUST(write(fd, is, strlen(is)) == (ssize_t)strlen(is));
	MUST(ftruncate(fd, size) == 0);
	close(fd);
}

/* -- sysfs -------------------------------------------------------------------------- */

static void set(const char *file, const char *format, unsigned id)
{
	int fd = open(file, O_WRONLY);

	MUST(fd >= 0);
	MUST(dprintf(fd, format, id, id) > 0);
	close(fd);
}

/* Mounts folder at /sys/bus, with a device in it. Exits with 77 where the system forbids it. */
static void own_sysfs(const char *folder, const char *device)
{
	unsigned uid = getuid(), gid = getgid();

	if (unshare(CLONE_NEWNS)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
			printf("a mount namespace: %s\n", strerror(errno));
			exit(77);
		}
		set("/proc/self/setgroups", "deny", 0);
		set("/proc/self/uid_map", "%u %u 1", uid);
		set("/proc/self/gid_map", "%u %u 1", gid);
	}
	MUST(mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	if (mount(folder, "/sys/bus", NULL, MS_BIND, NULL)) {
		printf("a mount on /sys/bus: %s\n", strerror(errno));
		exit(77);
	}
	MUST(mkdir("/sys/bus/pci", 0700) == 0 && mkdir("/sys/bus/pci/devices", 0700) == 0 && chdir("/sys/bus/pci/devices") == 0);
	MUST(mkdir(device, 0700) == 0 && chdir(device) == 0);
	make_file("vendor", "0x8086\n", 7);
	make_file("device", "0x6f0d\n", 7);
	make_file("config", "\x86\x80\x0d\x6f", 64);
	make_file("resource2", "", WINDOW);
}

/* Each word of the device reads as ones: also those that an end has written since. */
static void ones(const char *file, size_t length)
{
	static char page[1 << 16];
	int fd = open(file, O_WRONLY);

	MUST(fd >= 0);
	memset(page, 0xff, sizeof(page));
	for (size_t at = 0; at < length; at += sizeof(page))
		MUST(pwrite(fd, page, length - at < sizeof(page) ? length - at : sizeof(page), (off_t)at) > 0);
	close(fd);
}

/* -- the threads that sleep ------------------------------------------------------------ */

struct sleeper {
	struct end *e;
	struct ibv_comp_channel *channel;
	pthread_t completions, events;
	int fatal; /* atomic */
};

static void *await_completion(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_cq *cq = NULL;
	void *context;

	EQUAL(ibv_get_cq_event(s->channel, &cq, &context), 0);
	CHECK(cq == s->e->cq);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* All of an end's events: of the device, of its port and of its queue pair. */
static void *await_events(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_async_event event;
	int device = 0, port = 0, qp = 0;

	while (!device || !port || !qp) {
		MUST(ibv_get_async_event(s->e->ctx, &event) == 0);
		switch (event.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
			device = 1;
			break;
		case IBV_EVENT_PORT_ERR:
			EQUAL(event.element.port_num, PORT);
			port = 1;
			break;
		case IBV_EVENT_QP_FATAL:
			CHECK(event.element.qp == s->e->qp);
			qp = 1;
			break;
		case IBV_EVENT_PORT_ACTIVE:
			break;
		default:
			failed(__FILE__, __LINE__, "an event: %s", ibv_event_type_str(event.event_type));
		}
		ibv_ack_async_event(&event);
	}
	__atomic_store_n(&s->fatal, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* -- the program ------------------------------------------------------------------------- */

static void await_port(struct ibv_context *ctx)
{
	struct ibv_port_attr port;
	long long end = now_ms() + PATIENCE_MS;

	do
		MUST(ibv_query_port(ctx, PORT, &port) == 0 && now_ms() < end);
	while (port.state != IBV_PORT_ACTIVE);
}

/* A lost device: no call hangs, each says so, and what was made before can go. */
static void calls_return(struct end *e)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = e->qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	EQUAL(ibv_query_port(e->ctx, PORT, &port), 0);
	EQUAL(port.state, IBV_PORT_DOWN);
	EQUAL(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	EQUAL(attr.qp_state, IBV_QPS_ERR);
	/* The receive of before is flushed, and what is posted now. */
	WANT_WC(e->cq, 1, IBV_WC_WR_FLUSH_ERR);
	EQUAL(post_send(e, 2, 0, 100), 0);
	WANT_WC(e->cq, 2, IBV_WC_WR_FLUSH_ERR);
	EQUAL(post_recv(e, 3, 0, 100), 0);
	WANT_WC(e->cq, 3, IBV_WC_WR_FLUSH_ERR);
	EQUAL(ibv_poll_cq(e->cq, 1, &wc), 0);
	/* New objects are the process's own; a queue pair finds no peer. */
	MUST(cq = ibv_create_cq(e->ctx, 4, NULL, NULL, 0));
	EQUAL(ibv_destroy_cq(cq), 0);
	MUST(mr = ibv_reg_mr(e->pd, e->buf, 100, IBV_ACCESS_LOCAL_WRITE));
	EQUAL(ibv_dereg_mr(mr), 0);
	end_qp(e, IBV_QPT_RC);
	to_init(e->qp);
	EQUAL(post_recv(e, 4, 0, 100), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR};
	EQUAL(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	WANT_WC(e->cq, 4, IBV_WC_WR_FLUSH_ERR);
	EQUAL(ibv_destroy_qp(e->qp), 0);
	e->qp = qp;
}

int main(int argc, char **argv)
{
	char links[600];
	struct end ends[2];
	struct sleeper sleepers[2];
	long long patience;

	alarm(HUNG_SECONDS);
	if (argc == 3) {
		own_sysfs(argv[1], argv[2]);
		snprintf(links, sizeof(links), "pci:0:%s,pci:1:%s", argv[2], argv[2]);
	} else {
		make_file(argv[1], "", WINDOW);
		snprintf(links, sizeof(links), "map:0:%s,map:1:%s", argv[1], argv[1]);
	}
	setenv("VERBENA_NTB", links, 1);
	setenv("VERBENA_DEVICES", "ntb", 1);
	for (int i = 0; i < 2; i++) {
		struct ibv_context *ctx = open_named(i ? "ntb1" : "ntb0");

		memset(&sleepers[i], 0, sizeof(sleepers[i]));
		sleepers[i].e = &ends[i];
		MUST(sleepers[i].channel = ibv_create_comp_channel(ctx));
		end_open(&ends[i], ctx, ibv_create_cq(ctx, 2 * DEPTH, NULL, sleepers[i].channel, 0));
		end_qp(&ends[i], IBV_QPT_RC);
	}
	for (int i = 0; i < 2; i++)
		await_port(ends[i].ctx);
	for (int i = 0; i < 2; i++)
		to_init(ends[i].qp);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = ends[!i].qp->qp_num,
					   .rq_psn = PSN, .max_dest_rd_atomic = 4, .min_rnr_timer = 1};

		attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = PORT};
		MUST(ibv_query_gid(ends[!i].ctx, PORT, 0, &attr.ah_attr.grh.dgid) == 0);
		EQUAL(ibv_modify_qp(ends[i].qp, &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		      0);
		to_rts(ends[i].qp);
	}

	/* It works before. */
	EQUAL(post_recv(&ends[1], 7, 0, 100), 0);
	EQUAL(post_send(&ends[0], 8, 0, 100), 0);
	WANT_WC(ends[0].cq, 8, IBV_WC_SUCCESS);
	WANT_WC(ends[1].cq, 7, IBV_WC_SUCCESS);

	for (int i = 0; i < 2; i++) {
		EQUAL(post_recv(&ends[i], 1, 0, 100), 0);
		EQUAL(ibv_req_notify_cq(ends[i].cq, 0), 0);
		MUST(pthread_create(&sleepers[i].completions, NULL, await_completion, &sleepers[i]) == 0);
		MUST(pthread_create(&sleepers[i].events, NULL, await_events, &sleepers[i]) == 0);
	}
	if (argc == 3)
		ones("config", 64);
	else
		MUST(truncate(argv[1], 0) == 0);
	for (int i = 0; i < 2; i++)
		for (patience = now_ms() + PATIENCE_MS; !__atomic_load_n(&sleepers[i].fatal, __ATOMIC_SEQ_CST);) {
			MUST(now_ms() < patience);
			if (argc == 3) /* stores reach no device that has gone; these files have them */
				ones("resource2", WINDOW);
			poll(NULL, 0, 1);
		}
	for (int i = 0; i < 2; i++) {
		pthread_join(sleepers[i].events, NULL);
		pthread_join(sleepers[i].completions, NULL);
		calls_return(&ends[i]);
	}
	for (int i = 0; i < 2; i++) {
		end_close(&ends[i], 1);
		EQUAL(ibv_destroy_comp_channel(sleepers[i].channel), 0);
		EQUAL(ibv_close_device(ends[i].ctx), 0);
	}
	return failures ? 1 : 0;
}
