/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of a context (share.h). A thread claims an entry by its kind, without a lock: so a fork
 * finds none held.
 */
#define _GNU_SOURCE
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Objects of a context that others may import. Later ones have no handle. */
#define ENTRIES 16384

/* Entries that an object tries before it gets no handle. */
#define TRIES 64

static const char magic[8] = "verbena1";

struct vb_share_table {
	char magic[sizeof(magic)];
	uint64_t guid;
	char device[IBV_SYSFS_NAME_MAX];
	_Atomic uint32_t next; /* where a free entry is sought */
	_Atomic uint64_t end;  /* of the device memory behind the table */
	_Alignas(64) struct vb_share at[ENTRIES];
};

/* No process that has the descriptor can take the pages away from the others. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_SEAL)

/* Where device memory begins: at a huge page, in case the system has them here. */
#define DM_BEGINS (UINT64_C(2) << 20)
_Static_assert(sizeof(struct vb_share_table) <= DM_BEGINS, "device memory is behind the table");

/* Device memory that a context ever has. Places are not used twice. */
#define DM_ENDS (UINT64_C(1) << 46)

/* Gives a context the file: 0 or an errno. */
static int adopt(struct vb_context *c, int fd, struct vb_share_table *t)
{
	struct stat file;

	if (fstat(fd, &file))
		return errno;
	c->shares_inode = file.st_ino;
	c->shares_device = file.st_dev;
	c->verbs.context.cmd_fd = fd;
	c->shares = t;
	return 0;
}

static struct vb_share_table *map(int fd)
{
	void *at = mmap(NULL, sizeof(struct vb_share_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			0);

	return at == MAP_FAILED ? NULL : at;
}

int vb_share_open(struct vb_context *c)
{
	int fd = memfd_create("verbena-context", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct vb_share_table *t = NULL;

	if (fd < 0)
		return errno;
	if (!ftruncate(fd, sizeof(*t)) && !fcntl(fd, F_ADD_SEALS, SEALS))
		t = map(fd);
	if (!t) {
		int err = errno;

		close(fd);
		return err;
	}
	memcpy(t->magic, magic, sizeof(magic));
	t->guid = c->device->guid;
	strcpy(t->device, c->device->ibv.name);
	t->end = DM_BEGINS;
	return adopt(c, fd, t);
}

void vb_share_close(struct vb_context *c)
{
	munmap(c->shares, sizeof(*c->shares));
	close(c->verbs.context.cmd_fd);
}

/* Maps the table of a descriptor, which may be anything: 0 or an errno. */
static int map_checked(int fd, struct vb_share_table **t)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat file;

	if (fcntl(fd, F_GETFD) < 0 || fstat(fd, &file))
		return errno;
	if (seals < 0 || (seals & SEALS) != SEALS || file.st_size < (off_t)sizeof(**t))
		return EINVAL;
	*t = map(fd);
	if (!*t)
		return errno;
	if (memcmp((*t)->magic, magic, sizeof(magic)) == 0)
		return 0;
	munmap(*t, sizeof(**t));
	return EINVAL;
}

int vb_share_device(int cmd_fd, char name[IBV_SYSFS_NAME_MAX], uint64_t *guid)
{
	struct vb_share_table *t;
	int err = map_checked(cmd_fd, &t);

	if (err)
		return err;
	memcpy(name, t->device, IBV_SYSFS_NAME_MAX - 1);
	name[IBV_SYSFS_NAME_MAX - 1] = 0;
	*guid = t->guid;
	munmap(t, sizeof(*t));
	return 0;
}

int vb_share_join(struct vb_context *c, int cmd_fd)
{
	struct vb_share_table *t;
	int err = map_checked(cmd_fd, &t);

	if (err)
		return err;
	vb_share_close(c);
	return adopt(c, cmd_fd, t);
}

static void fill(struct vb_share *e, enum vb_share_kind kind, const struct vb_share *object)
{
	e->access = object->access;
	e->pid = getpid();
	e->log_align = object->log_align;
	e->addr = object->addr;
	e->length = object->length;
	e->iova = object->iova;
	atomic_store(&e->kind, kind);
}

uint32_t vb_share_add(struct ibv_context *ctx, enum vb_share_kind kind,
		      const struct vb_share *object)
{
	struct vb_share_table *t = vb_context_of(ctx)->shares;

	for (int i = 0; i < TRIES; i++) {
		uint32_t n = atomic_fetch_add(&t->next, 1) % ENTRIES, none = VB_SHARE_FREE;

		if (atomic_compare_exchange_strong(&t->at[n].kind, &none, VB_SHARE_CHANGING)) {
			fill(&t->at[n], kind, object);
			return n + 1;
		}
	}
	return 0;
}

/* Returns the entry of a handle, or NULL. */
static struct vb_share *entry(struct ibv_context *ctx, uint32_t handle)
{
	if (handle < 1 || handle > ENTRIES)
		return NULL;
	return &vb_context_of(ctx)->shares->at[handle - 1];
}

void vb_share_change(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		     const struct vb_share *object)
{
	struct vb_share *e = entry(ctx, handle);

	if (!e)
		return;
	atomic_store(&e->kind, VB_SHARE_CHANGING);
	fill(e, kind, object);
}

void vb_share_remove(struct ibv_context *ctx, uint32_t handle)
{
	struct vb_share *e = entry(ctx, handle);

	if (e)
		atomic_store(&e->kind, VB_SHARE_FREE);
}

int vb_share_find(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		  struct vb_share *object)
{
	struct vb_share *e = entry(ctx, handle);

	if (!e || atomic_load(&e->kind) != kind)
		return EINVAL;
	object->access = e->access;
	object->pid = e->pid;
	object->log_align = e->log_align;
	object->addr = e->addr;
	object->length = e->length;
	object->iova = e->iova;
	/* It did not change meanwhile. */
	return atomic_load(&e->kind) == kind ? 0 : EINVAL;
}

/* -- device memory --------------------------------------------------------------- */

/*
 * Returns the descriptor of the table's file, or -1 and errno. A daemon may have closed it, and the
 * number may be another file's.
 */
static int file_of(struct vb_context *c)
{
	int fd = c->verbs.context.cmd_fd;
	struct stat file;

	if (fstat(fd, &file))
		return -1;
	if (file.st_ino == c->shares_inode && file.st_dev == c->shares_device)
		return fd;
	errno = EBADF;
	return -1;
}

int vb_share_grow(struct ibv_context *ctx, uint64_t length, uint64_t *at)
{
	struct vb_context *c = vb_context_of(ctx);
	int fd = file_of(c);
	struct stat file;
	uint64_t end;

	if (fd < 0)
		return errno;
	*at = atomic_fetch_add(&c->shares->end, length);
	if (*at < DM_BEGINS || *at > DM_ENDS || length > DM_ENDS - *at)
		return ENOMEM;
	end = *at + length;
	/* It fails with EPERM if another thread has made the file longer. */
	if (ftruncate(fd, (off_t)end) && errno != EPERM)
		return errno;
	if (fstat(fd, &file))
		return errno;
	return (uint64_t)file.st_size < end ? ENOMEM : 0;
}

void *vb_share_map(struct ibv_context *ctx, uint64_t at, uint64_t length, unsigned log_align)
{
	int fd = file_of(vb_context_of(ctx));
	size_t align = (size_t)1 << log_align;
	char *room, *from, *memory;

	if (fd < 0)
		return NULL;
	/* There is room to align the memory in. The rest goes back. */
	room = mmap(NULL, length + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	from = (char *)(((uintptr_t)room + align - 1) & ~(align - 1));
	memory = mmap(from, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)at);
	if (memory == MAP_FAILED) {
		int err = errno;

		munmap(room, length + align);
		errno = err;
		return NULL;
	}
	if (from > room)
		munmap(room, (size_t)(from - room));
	munmap(from + length, (size_t)(room + align - from));
	return memory;
}

void vb_share_discard(struct ibv_context *ctx, uint64_t at, uint64_t length)
{
	int fd = file_of(vb_context_of(ctx));

	if (fd >= 0)
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)length);
}
