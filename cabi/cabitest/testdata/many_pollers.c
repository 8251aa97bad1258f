/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Eight processes on one core, which all poll and give the core away after each empty poll, as the
 * ranks of an MPI program do. In rounds each sends to the process that is 1, 2 and 4 further. It
 * waits for the one that is as far behind. It prints the thread switches per message, and checks
 * that not many were to the engine's own threads.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"

#define RANKS 8
#define STEPS 3
#define WARM 100
#define ROUNDS 500

struct shared {
	atomic_int here;
	uint32_t to[RANKS][STEPS], from[RANKS][STEPS]; /* numbers of queue pairs */
	long switches[RANKS], own[RANKS]; /* of the process, of its polling thread */
	long long ms[RANKS]; /* time of the rounds */
};

static struct shared *all;

/* Waits until all ranks have come here for the n-th time. */
static void meet(int n)
{
	long long end = now_ms() + 3 * PATIENCE_MS;

	atomic_fetch_add(&all->here, 1);
	while (atomic_load(&all->here) < n * RANKS) {
		MUST(now_ms() < end);
		sched_yield();
	}
}

/* Polls until the queue has shown so many completions in all. */
static void take(struct ibv_cq *cq, int *seen, int want)
{
	long long end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc[8];

	while (*seen < want) {
		int n = ibv_poll_cq(cq, 8, wc);

		MUST(n >= 0);
		for (int i = 0; i < n; i++)
			MUST(wc[i].status == IBV_WC_SUCCESS);
		*seen += n;
		if (!n) {
			MUST(now_ms() < end);
			sched_yield();
		}
	}
}

static long switches(int whose)
{
	struct rusage u;

	MUST(getrusage(whose, &u) == 0);
	return u.ru_nvcsw + u.ru_nivcsw;
}

static void rank(int me)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_cq *sent;
	struct end to[STEPS], from[STEPS];
	int seen_sent = 0, seen[STEPS] = {0};
	long whole = 0, own = 0;

	MUST(sent = ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, 0));
	for (int s = 0; s < STEPS; s++) {
		end_open(&to[s], ctx, sent);
		end_open(&from[s], ctx, NULL);
		end_qp(&to[s], IBV_QPT_RC);
		end_qp(&from[s], IBV_QPT_RC);
		all->to[me][s] = to[s].qp->qp_num;
		all->from[me][s] = from[s].qp->qp_num;
		to_init(to[s].qp);
		to_init(from[s].qp);
		for (int i = 0; i < DEPTH; i++)
			EQUAL(post_recv(&from[s], 0, 0, 64), 0);
	}
	meet(1);
	for (int s = 0; s < STEPS; s++) {
		to_rtr(to[s].qp, all->from[(me + (1 << s)) % RANKS][s]);
		to_rtr(from[s].qp, all->to[(me - (1 << s) + RANKS) % RANKS][s]);
		to_rts(to[s].qp);
		to_rts(from[s].qp);
	}
	meet(2);
	for (int r = 0; r < WARM + ROUNDS; r++) {
		if (r == WARM) {
			whole = switches(RUSAGE_SELF);
			own = switches(RUSAGE_THREAD);
			all->ms[me] = -now_ms();
		}
		for (int s = 0; s < STEPS; s++) {
			take(sent, &seen_sent, STEPS * r + s - DEPTH / 2);
			EQUAL(post_send(&to[s], 0, 0, 2), 0);
			take(from[s].cq, &seen[s], r + 1);
			EQUAL(post_recv(&from[s], 0, 0, 64), 0);
		}
	}
	all->switches[me] = switches(RUSAGE_SELF) - whole;
	all->own[me] = switches(RUSAGE_THREAD) - own;
	all->ms[me] += now_ms();
	take(sent, &seen_sent, STEPS * (WARM + ROUNDS));
	meet(3);
	exit(failures != 0);
}

int main(void)
{
	cpu_set_t one, may;
	int status, cpu = 0;
	long messages = (long)RANKS * STEPS * ROUNDS, sum = 0, own = 0, ms = 0;

	MUST(sched_getaffinity(0, sizeof(may), &may) == 0);
	while (!CPU_ISSET(cpu, &may))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	MUST(sched_setaffinity(0, sizeof(one), &one) == 0);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(all != MAP_FAILED);
	for (int i = 0; i < RANKS; i++)
		if (!fork())
			rank(i);
	for (int i = 0; i < RANKS; i++) {
		MUST(wait(&status) > 0);
		EQUAL(status, 0);
	}
	for (int i = 0; i < RANKS; i++) {
		sum += all->switches[i];
		own += all->own[i];
		ms += all->ms[i];
	}
	printf("switches a message: %.2f of polling threads, %.2f of others in %ld ms\n", (double)own / messages,
	       (double)(sum - own) / messages, ms / RANKS);
	/*
	 * A bell, a goroutine and the threads that the Go scheduler woke for it for each message took
	 * 8. The rest come with time: the naps, and the monitor of the Go runtime.
	 */
	MUST(sum - own < 5 * messages);
	return failures != 0;
}
