/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints where sysfs is and where the devices lie in it. */
#include "loop.h"

const char *ibv_get_sysfs_path(void);

int main(void)
{
	struct ibv_context *ctx = open_loopback();

	printf("%s %s\n", ibv_get_sysfs_path(), ctx->device->ibdev_path);
	return finish(ctx);
}
