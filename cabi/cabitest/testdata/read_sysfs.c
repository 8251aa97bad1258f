/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the first device's files of the names given, as ibv_read_sysfs_file reads them: from the library. */
#include "loop.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	char buf[256];

	MUST(list && list[0]);
	MUST(ctx = ibv_open_device(list[0]));

	for (int i = 1; i < argc; i++) {
		int n = ibv_read_sysfs_file(ctx->device->ibdev_path, argv[i], buf, sizeof(buf));

		printf("%s: %s\n", argv[i], n < 0 ? strerror(errno) : buf);
	}
	EQUAL(ibv_close_device(ctx), 0);
	ibv_free_device_list(list);
	return failures ? 1 : 0;
}
