/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends with everything open: by "return", or by the signal of that number. Says
 * so before, when there is an object of the engine's.
 */
#include "loop.h"

#include <signal.h>

int main(int argc, char **argv)
{
	struct ibv_context *ctx = open_loopback();

	CHECK(argc == 2);
	CHECK(ibv_alloc_pd(ctx));
	puts("open");
	fflush(stdout);
	if (strcmp(argv[1], "return") != 0)
		raise(atoi(argv[1]));
	return 0;
}
