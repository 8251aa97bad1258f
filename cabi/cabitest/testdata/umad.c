// SPDX-License-Identifier: BSD-2-Clause
// The calls of ib_umad: agents, requests, time-outs; over descriptors that are duplicated, closed
// and opened again.
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#undef NDEBUG

enum { MAD = 256, OLD = sizeof(struct ib_user_mad_hdr_old), NEW = sizeof(struct ib_user_mad_hdr) };

static int opened(int flags)
{
	int fd = open("/dev/infiniband/umad0", O_RDWR | flags);

	assert(fd >= 0);
	assert(!!(fcntl(fd, F_GETFL) & O_NONBLOCK) == !!(flags & O_NONBLOCK));
	assert(!!(fcntl(fd, F_GETFD) & FD_CLOEXEC) == !!(flags & O_CLOEXEC));
	return fd;
}

static __u32 agent(int fd)
{
	struct ib_user_mad_reg_req r = { .qpn = 1, .mgmt_class = 4, .mgmt_class_version = 1 };

	assert(ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &r) == 0);
	return r.id;
}

/* Writes a Get of an attribute of a class, and returns how many bytes come back. */
static ssize_t ask(int fd, __u32 id, __u8 class, __u8 attribute, int header, unsigned char *b)
{
	struct ib_user_mad_hdr h = { .id = id, .timeout_ms = 20, .qpn = htobe32(1) };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	memset(b, 0, NEW + MAD);
	memcpy(b, &h, header);
	memcpy(b + header, (unsigned char[]){ 1, class, 1, 1 }, 4);
	b[header + 15] = 77; /* transaction */
	b[header + 17] = attribute;
	b[header + 65] = 1; /* port */
	assert(write(fd, b, header + MAD) == header + MAD);
	assert(poll(&p, 1, 60000) == 1);
	return read(fd, b, NEW + MAD);
}

static void answered(int fd, __u32 id, int header)
{
	unsigned char b[NEW + MAD];
	struct ib_user_mad_hdr h = { 0 };

	assert(ask(fd, id, 4, 0x12, header, b) == header + MAD);
	memcpy(&h, b, header);
	assert(h.id == id && h.status == 0 && h.length == (unsigned)header + MAD);
	/* GetResp, no error, the transaction's number, PortSelect */
	assert(b[header + 3] == 0x81 && b[header + 4] == 0 && b[header + 5] == 0 &&
	       b[header + 15] == 77 && b[header + 65] == 1);
}

int main(void)
{
	struct ib_user_mad_reg_req2 r2 = { .qpn = 1, .mgmt_class = 4, .mgmt_class_version = 1 };
	unsigned char b[NEW + MAD];
	struct ib_user_mad_hdr h;
	int fd = opened(O_NONBLOCK | O_CLOEXEC), other, null = open("/dev/null", O_RDWR);
	__u32 id, gone;
	struct stat s;

	assert(read(fd, b, sizeof b) == -1 && errno == EAGAIN);
	assert(stat("/dev/infiniband/umad0", &s) == 0 && S_ISCHR(s.st_mode));

	/* The old header, then, after ENABLE_PKEY, the new one. */
	id = agent(fd);
	answered(fd, id, OLD);
	assert(ioctl(fd, IB_USER_MAD_ENABLE_PKEY, NULL) == 0);
	answered(fd, id, NEW);

	/* Nobody answers subnet management. */
	assert(ask(fd, id, 0x81, 0x11, NEW, b) == NEW + 24);
	memcpy(&h, b, NEW);
	assert(h.status == ETIMEDOUT && h.id == id && b[NEW + 15] == 77);

	assert(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &r2) == 0 && r2.id != id);
	gone = r2.id;
	assert(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &gone) == 0);
	assert(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &gone) == -1 && errno == EINVAL);
	r2.flags = 0x100;
	assert(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &r2) == -1 && errno == EINVAL &&
	       r2.flags == IB_USER_MAD_REG_FLAGS_CAP);
	assert(ask(fd, gone, 4, 0x12, NEW, b) == NEW + 24);
	memcpy(&h, b, NEW);
	assert(h.status == EINVAL);

	r2 = (struct ib_user_mad_reg_req2){ .qpn = 256, .mgmt_class = 4, .mgmt_class_version = 1 };
	assert(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &r2) == -1 && errno == EINVAL);

	/* An empty write does not close the file. */
	assert(write(fd, b, 0) == 0);
	answered(fd, id, NEW);

	/* A duplicate is the same file; another open is another. */
	other = dup(fd);
	assert(close(fd) == 0);
	answered(other, id, NEW);
	assert(agent(other) == 1);
	fd = opened(0);
	assert(agent(fd) == 0);
	assert(close(other) == 0);
	for (int i = 0; i < 50; i++) {
		other = opened(O_CLOEXEC);
		answered(other, agent(other), NEW);
		assert(close(other) == 0);
	}
	answered(fd, 0, NEW);

	/* Other descriptors are not concerned. */
	assert(ioctl(null, IB_USER_MAD_ENABLE_PKEY, NULL) == -1 && errno == ENOTTY);
	assert(ioctl(-1, IB_USER_MAD_ENABLE_PKEY, NULL) == -1 && errno == EBADF);
	assert(open("/dev/infiniband/umad63", O_RDWR) == -1 && errno == ENOENT);
	puts("answered");
	return 0;
}
