/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A correct program with threads and buffers, for sanitizers and valgrind to watch: one thread
 * posts, another polls and takes the buffer back, and nothing but the completion is between the
 * two. An argument names the ways in which the program is to be wrong, for its tool to see.
 */
#include "loop.h"

#include <pthread.h>
#include <unistd.h>

static struct end a, b;
static void *volatile kept;

static void *poster(void *arg)
{
	(void)arg;
	memset(a.buf, 'a', 4096);
	memset(b.buf, 'b', 4096);
	EQUAL(post_recv(&b, 1, 0, 4096), 0);
	EQUAL(post_send(&a, 2, 0, 4096), 0);
	return NULL;
}

/* The receive is posted by another thread than the send. */
static void *receiver(void *arg)
{
	memset(b.buf, 'b', 4096);
	EQUAL(post_recv(&b, 1, 0, 4096), 0);
	return arg;
}

static void *racer(void *arg)
{
	*(volatile char *)a.buf = 'r';
	return arg;
}

static void take_back(void)
{
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	CHECK(b.buf[0] == 'a' && b.buf[4095] == 'a');
	memset(a.buf, 0, 4096);
	memset(b.buf, 0, 4096);
}

/* Memory is sent that nobody has written, as padding is: an adapter would not notice. */
static void unwritten(void)
{
	struct ibv_sge sge = {.length = 100};
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	char *memory = malloc(4096);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, memory, 4096, 0);

	MUST(memory && mr);
	sge.addr = (uintptr_t)memory;
	sge.lkey = mr->lkey;
	EQUAL(post_recv(&b, 1, 0, 4096), 0);
	EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
	WANT_WC(b.cq, 1, IBV_WC_SUCCESS);
	WANT_WC(a.cq, 2, IBV_WC_SUCCESS);
	EQUAL(ibv_dereg_mr(mr), 0);
	free(memory);
}

int main(int argc, char **argv)
{
	const char *wrong = argc > 1 ? argv[1] : "";
	struct ibv_context *ctx = open_loopback();
	pthread_t thread;

	pair(&a, &b, ctx, IBV_QPT_RC);
	for (int i = 0; i < 20; i++) {
		MUST(pthread_create(&thread, NULL, i % 2 ? receiver : poster, NULL) == 0);
		if (i % 2) {
			MUST(pthread_join(thread, NULL) == 0);
			memset(a.buf, 'a', 4096);
			EQUAL(post_send(&a, 2, 0, 4096), 0);
		}
		take_back();
		if (!(i % 2))
			MUST(pthread_join(thread, NULL) == 0);
	}
	if (strstr(wrong, "race")) {
		MUST(pthread_create(&thread, NULL, racer, NULL) == 0);
		*(volatile char *)a.buf = 'm';
		MUST(pthread_join(thread, NULL) == 0);
	}
	unwritten();
	unpair(&a, &b);
	if (strstr(wrong, "freed"))
		printf("%c\n", *(volatile char *)a.buf);
	if (strstr(wrong, "leak")) /* few bytes: a word of the engine's may look like an address in them */
		MUST(kept = malloc(104));
	kept = NULL;
	return finish(ctx);
}
