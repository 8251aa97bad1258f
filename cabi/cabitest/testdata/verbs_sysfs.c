/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that a driver would have under /sys, the kernel's own beside them, and SYSFS_PATH's place. */
#include "loop.h"

#include <endian.h>

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static const char *dir;

static const char *text(const char *file)
{
	static char buf[256];
	int n;

	memset(buf, 0xaa, sizeof(buf));
	n = ibv_read_sysfs_file(dir, file, buf, sizeof(buf));
	if (n < 0)
		return "";
	EQUAL(n, strlen(buf));
	return buf;
}

#define TEXT(file, want)                                                                                               \
	do {                                                                                                           \
		const char *got_ = text(file);                                                                         \
		if (strcmp(got_, want))                                                                                \
			failed(__FILE__, __LINE__, "%s is \"%s\", want \"%s\"", file, got_, want);                     \
	} while (0)

static void none(const char *file, int want)
{
	char buf[64];

	errno = 0;
	EQUAL(ibv_read_sysfs_file(dir, file, buf, sizeof(buf)), -1);
	EQUAL(errno, want);
}

int main(void)
{
	struct ibv_context *ctx = open_loopback();
	unsigned long long guid = be64toh(ibv_get_device_guid(ctx->device));
	char want[64], small[2], gid_file[32];
	int gid = gid_index(ctx);

	CHECK(!strcmp(ibv_get_sysfs_path(), "/sys"));
	dir = ctx->device->ibdev_path;
	snprintf(want, sizeof(want), "%04llx:%04llx:%04llx:%04llx", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
		 guid & 0xffff);
	TEXT("node_guid", want);
	TEXT("sys_image_guid", want);
	TEXT("node_type", "1: CA");
	TEXT("fw_ver", "1.0.0");
	TEXT("node_desc", "roce_lo");
	TEXT("ports/1/state", "4: ACTIVE");
	TEXT("ports/1/phys_state", "5: LinkUp");
	TEXT("ports/1/link_layer", "Ethernet");
	TEXT("ports/1/rate", "2.5 Gb/sec (1X SDR)");
	TEXT("ports/1/lid", "0x0");
	TEXT("ports/1/pkeys/0", "0xffff");
	snprintf(gid_file, sizeof(gid_file), "ports/1/gids/%d", gid);
	TEXT(gid_file, "0000:0000:0000:0000:0000:ffff:7f00:0001");
	TEXT("ports/1/gids/255", "0000:0000:0000:0000:0000:0000:0000:0000");
	TEXT("ports/1/gid_attrs/types/0", "RoCE v2");
	TEXT("ports/1/gid_attrs/ndevs/0", "lo");
	none("ports/1/gid_attrs/types/255", EINVAL);
	none("ports/1/gid_attrs/ndevs/255", EINVAL);
	none("ports/1/gids/256", ENOENT);
	none("ports/1/gids/x", ENOENT);
	none("ports/1/gids/", ENOENT);
	none("ports/2/state", ENOENT);
	none("board_id", ENOENT);
	none("", ENOENT);

	/* Without room for the NUL there is no text; the newline makes room for it. */
	EQUAL(ibv_read_sysfs_file(dir, "ports/1/sm_sl", small, 2), 1);
	EQUAL(ibv_read_sysfs_file(dir, "fw_ver", small, 2), -1);
	EQUAL(ibv_read_sysfs_file(dir, "fw_ver", small, 0), 0);

	/* Devices that are not ours come from the disk. */
	dir = "/proc/sys/kernel";
	CHECK(strlen(text("ostype")) == 5);
	none("nothing-of-the-kind", ENOENT);
	return finish(ctx);
}
