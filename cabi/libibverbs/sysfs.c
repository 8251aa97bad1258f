/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of a kernel driver under /sys/class/infiniband, made when they are read:
 * ibv_read_sysfs_file uses ours before those of the disk. The texts are those of Linux for a RoCE
 * device (Documentation/ABI/stable/sysfs-class-infiniband).
 */
#define _GNU_SOURCE
#include "front.h"
#include "private.h"
#include "device_limits.h"
#include "gid.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than the longest text, a GID. */
#define TEXT_BYTES 256

static char *root;

/* A program with privileges does not trust its environment. */
static void find_root(void)
{
	const char *env = secure_getenv("SYSFS_PATH");
	size_t n;

	root = strndup(env ? env : "/sys", IBV_SYSFS_PATH_MAX);
	for (n = root ? strlen(root) : 0; n > 0 && root[n - 1] == '/'; n--)
		root[n - 1] = 0;
}

/* No header declares it any more, but programs call it. */

VB_EXPORT VB_RETURNS_POINTER(const char *, ibv_get_sysfs_path, (void), ())
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_root);
	return root ? root : "/sys";
}

void vb_sysfs_path(char *path, size_t size, const char *class, const char *name)
{
	snprintf(path, size, "%s/%s/%s", ibv_get_sysfs_path(), class, name);
}

/* -- texts ------------------------------------------------------------------- */

static int guid_text(char *text, const struct vb_device *d)
{
	return snprintf(text, TEXT_BYTES, "%04x:%04x:%04x:%04x\n", (unsigned)(d->guid >> 48),
			(unsigned)(d->guid >> 32) & 0xffff, (unsigned)(d->guid >> 16) & 0xffff,
			(unsigned)d->guid & 0xffff);
}

/* The names of enum ibv_port_state and PortPhysicalState in Linux. */
static int state_text(char *text, const struct ibv_port_attr *a)
{
	static const char *const words[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER" };

	return snprintf(text, TEXT_BYTES, "%d: %s\n", a->state, words[a->state]);
}

static int phys_state_text(char *text, const struct ibv_port_attr *a)
{
	static const char *const words[] = {
		"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp"
	};

	return snprintf(text, TEXT_BYTES, "%d: %s\n", a->phys_state, words[a->phys_state]);
}

static int gid_text(char *text, const union ibv_gid *gid)
{
	const uint8_t *g = gid->raw;
	int n = 0;

	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, TEXT_BYTES - n, "%02x%02x%s", g[i], g[i + 1], i < 14 ? ":" : "\n");
	return n;
}

/* Matches "prefix/N" and returns N, or -1. */
static int numbered(const char *file, const char *prefix)
{
	size_t n = strlen(prefix);
	char *end;
	long i;

	if (strncmp(file, prefix, n) != 0 || file[n] < '0' || file[n] > '9')
		return -1;
	i = strtol(file + n, &end, 10);
	return *end || i > 0xffff ? -1 : (int)i;
}

/* The files of a GID. A free index has a GID, but neither type nor interface. */
static int gid_file(char *text, const struct vb_device *d, const char *file)
{
	int gid = numbered(file, "gids/"), type = numbered(file, "gid_attrs/types/"),
	    ndev = numbered(file, "gid_attrs/ndevs/");
	int index = gid >= 0 ? gid : type >= 0 ? type : ndev, n;
	struct ibv_gid_entry *all;

	if (index < 0 || index >= d->kind->port.gid_tbl_len)
		return -ENOENT;
	all = calloc(index + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	n = vb_gid_table(d, all, index + 1);
	if (gid >= 0)
		n = gid_text(text, &all[index].gid);
	else if (n <= index || vb_gid_is_free(&all[index].gid))
		n = -EINVAL;
	else if (ndev >= 0)
		n = snprintf(text, TEXT_BYTES, "%s\n", d->netdev);
	else
		n = snprintf(text, TEXT_BYTES, "%s\n",
			     all[index].gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2"
									 : "IB/RoCE v1");
	free(all);
	return n;
}

static int port_file(char *text, const struct vb_device *d, const char *file)
{
	struct ibv_port_attr a;

	vb_port_attr(d, &a);
	if (strcmp(file, "state") == 0)
		return state_text(text, &a);
	if (strcmp(file, "phys_state") == 0)
		return phys_state_text(text, &a);
	if (strcmp(file, "rate") == 0)
		return snprintf(text, TEXT_BYTES,
				"2.5 Gb/sec (1X SDR)\n"); /* active_width 1, active_speed 1 */
	if (strcmp(file, "link_layer") == 0)
		return snprintf(text, TEXT_BYTES, "Ethernet\n");
	if (strcmp(file, "cap_mask") == 0)
		return snprintf(text, TEXT_BYTES, "0x%08x\n", a.port_cap_flags);
	if (strcmp(file, "lid") == 0 || strcmp(file, "sm_lid") == 0)
		return snprintf(text, TEXT_BYTES, "0x0\n");
	if (strcmp(file, "lid_mask_count") == 0 || strcmp(file, "sm_sl") == 0)
		return snprintf(text, TEXT_BYTES, "0\n");
	if (strcmp(file, "pkeys/0") == 0)
		return snprintf(text, TEXT_BYTES, "0x%04x\n", VB_PKEY_DEFAULT);
	return gid_file(text, d, file);
}

/* Writes the text of a file of a device. Returns its length or a negative errno. */
static int device_file(char *text, const struct vb_device *d, const char *file)
{
	if (strcmp(file, "node_type") == 0)
		return snprintf(text, TEXT_BYTES, "%d: %s\n", d->ibv.node_type,
				d->ibv.node_type == IBV_NODE_RNIC ? "RNIC" : "CA");
	if (strcmp(file, "node_guid") == 0 || strcmp(file, "sys_image_guid") == 0)
		return guid_text(text, d);
	if (strcmp(file, "node_desc") == 0)
		return snprintf(text, TEXT_BYTES, "%s\n", d->ibv.name);
	if (strcmp(file, "fw_ver") == 0)
		return snprintf(text, TEXT_BYTES, "%s\n", d->kind->device.fw_ver);
	if (strncmp(file, "ports/1/", 8) == 0)
		return port_file(text, d, file + 8);
	return -ENOENT; /* no board */
}

/* -- reading ------------------------------------------------------------------ */

/* Finds the device of a path, and the rest of the path below its directory. */
static struct ibv_device *find(struct ibv_device **list, const char *path, const char **file)
{
	for (; list && *list; list++) {
		size_t n = strlen((*list)->ibdev_path);

		if (strncmp(path, (*list)->ibdev_path, n) == 0 && path[n] == '/') {
			*file = path + n + strspn(path + n, "/");
			return *list;
		}
	}
	return NULL;
}

/* Reads a file of the disk into text. Returns its length or a negative errno. */
static ssize_t disk_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size);
	if (n < 0)
		n = -errno;
	close(fd);
	return n;
}

/* No header declares it any more; ibv_devinfo reads board_id by it. */

/*
 * Returns the length of the text without the newline at its end. It returns -1 if there is no such
 * file or no room for a final NUL.
 */
VB_EXPORT VB_RETURNS_COUNT(int, ibv_read_sysfs_file,
	(const char *dir, const char *name, char *buf, size_t size), (dir, name, buf, size))
{
	struct ibv_device **list, *device;
	char *path, text[TEXT_BYTES];
	const char *file;
	ssize_t n;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return -1;
	list = ibv_get_device_list(NULL);
	device = find(list, path, &file);
	if (device) {
		n = device_file(text, vb_device_of(device), file);
		if (n > 0) {
			n = (size_t)n < size ? (size_t)n : size;
			memcpy(buf, text, n);
		}
	} else {
		n = disk_file(path, buf, size);
	}
	if (list)
		ibv_free_device_list(list);
	free(path);
	if (n > 0) {
		if (buf[n - 1] == '\n')
			buf[--n] = 0;
		else if ((size_t)n < size)
			buf[n] = 0;
		else
			n = -EOVERFLOW;
	}
	if (n < 0) {
		errno = -n;
		return -1;
	}
	return n;
}

/*
 * A function of the private node. Its third argument is a structure of kernel devices. None of ours
 * points to one, so there is nothing to read.
 */
int private_ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *device, const char *format,
				      ...);

VB_EXPORT int private_ibv_read_ibdev_sysfs_file(char *buf, size_t size, void *device,
						const char *format, ...)
{
	(void)buf;
	(void)size;
	(void)device;
	(void)format;
	errno = EINVAL;
	return -1;
}
VB_PRIVATE_NODES(ibv_read_ibdev_sysfs_file);
