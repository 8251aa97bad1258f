/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes and destroys so many objects that the engine collects garbage. */
#include "loop.h"

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	struct end a, b;

	for (int i = 0; i < 100; i++) {
		pair(&a, &b, ctx, IBV_QPT_RC);
		unpair(&a, &b);
	}
	return finish(ctx);
}
