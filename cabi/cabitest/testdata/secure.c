/* SPDX-License-Identifier: BSD-2-Clause */
/* Says whether the process must distrust its environment, lists the devices and opens the loopback one. Twice. */
#include "loop.h"

#include <sys/auxv.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	printf("secure %lu\n", getauxval(AT_SECURE));
	for (int i = 0; list[i]; i++)
		printf("%s\n", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	for (int i = 0; i < 2; i++) {
		struct ibv_context *ctx = open_loopback();
		struct end a, b;
		struct ibv_wc wc;

		pair(&a, &b, ctx, IBV_QPT_RC);
		EQUAL(post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 100, (uintptr_t)b.buf, b.mr->rkey), 0);
		MUST(wait_wc(a.cq, &wc) == 1);
		EQUAL(wc.status, IBV_WC_SUCCESS);
		unpair(&a, &b);
		EQUAL(finish(ctx), 0);
	}
	return failures ? 1 : 0;
}
