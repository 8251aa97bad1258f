/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an object and prints the errno with which that fails. */
#include "loop.h"

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct ibv_pd *pd;

	errno = 0;
	pd = ibv_alloc_pd(ctx);
	printf("%s\n", pd ? "made" : strerror(errno));
	if (pd)
		EQUAL(ibv_dealloc_pd(pd), 0);
	return finish(ctx);
}
