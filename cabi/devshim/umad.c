/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/umadN, by which programs send management datagrams: libibumad. The descriptor is
 * a socket, whose other end the engine of libibverbs serves. So read, write and poll are the
 * system's; only open and ioctl are redirected.
 */
#include "umad.h"

#include "next.h"
#include "path.h"

#include <fcntl.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int (*_Atomic umad_open)(const char *device, int flags);
static int (*_Atomic umad_ioctl)(int fd, unsigned long request, void *arg);

/* Loads the libibverbs beside this library, which programs of libibumad do not. */
static int load(void)
{
	void *library = NULL, *f, *g;
	char path[PATH_MAX];
	const char *slash;
	Dl_info info;

	if (umad_ioctl)
		return 0;
	if (dladdr((void *)load, &info) && (slash = strrchr(info.dli_fname, '/'))) {
		snprintf(path, sizeof path, "%.*s/libibverbs.so.1", (int)(slash - info.dli_fname),
			 info.dli_fname);
		library = dlopen(path, RTLD_NOW);
	}
	f = library ? dlsym(library, "vb_umad_open") : NULL;
	g = library ? dlsym(library, "vb_umad_ioctl") : NULL;
	if (!f || !g) {
		errno = ENODEV;
		return -1;
	}
	umad_open = (int (*)(const char *, int))f;
	umad_ioctl = (int (*)(int, unsigned long, void *))g;
	return 0;
}

/* Reads the device of a node. Returns 0, or -1 and errno. */
static int device_of(int number, char *name, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/sys/class/infiniband_mad/umad%d/ibdev", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, name, room - 1);
	close(fd);
	if (n <= 0) {
		errno = ENODEV;
		return -1;
	}
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return 0;
}

int open_umad(const char *path, int flags, int *fd)
{
	int number = node_number(path, "/umad");
	char name[64];

	if (number < 0)
		return 0;
	*fd = device_of(number, name, sizeof name) || load() ? -1 : umad_open(name, flags);
	return 1;
}

int ioctl_umad(int fd, unsigned long request, void *arg, int *result)
{
	if (_IOC_TYPE(request) != RDMA_IOCTL_MAGIC || !umad_ioctl)
		return 0;
	*result = umad_ioctl(fd, request, arg);
	return *result == 0 || errno != ENOTTY;
}
