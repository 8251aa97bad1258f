/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of a context (share.h). A thread claims an entry by its kind, without a lock: so a fork
 * finds none held.
 */
#define _GNU_SOURCE
#include "share.h"
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Objects of a context that others may import. Later ones have no handle. */
#define ENTRIES 16384

/* Entries that an object tries before it gets no handle. */
#define TRIES 64

static const char magic[8] = "verbena2";

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

/*
 * A state has the kind of an object, the generation of its handle, and a count of changes. A handle
 * is an entry and its generation, which is never 0.
 */
#define KIND_BITS 8
#define ENTRY_BITS 14
#define GENERATIONS (UINT32_C(1) << (32 - ENTRY_BITS))
#define CHANGE (UINT64_C(1) << 32)
_Static_assert(ENTRIES == 1 << ENTRY_BITS, "a handle has an entry and a generation");

static uint32_t kind_of(uint64_t state)
{
	return state & ((1 << KIND_BITS) - 1);
}

static uint32_t generation_of(uint64_t state)
{
	return (uint32_t)state >> KIND_BITS & (GENERATIONS - 1);
}

static uint64_t state_of(uint64_t former, uint32_t generation, uint32_t kind)
{
	return ((former & ~(CHANGE - 1)) + CHANGE) | generation << KIND_BITS | kind;
}

/* The contexts of this process, guarded by the lock of engine.c. */
static struct vb_context *contexts;

/* The pid of this process. A child of a fork learns its own. */
static pid_t self;

__attribute__((constructor)) void vb_share_after_fork_in_child(void)
{
	self = getpid();
}

/* Returns whether a file may have so many bytes. The kernel kills a process that grows it more. */
static int may_grow(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || bytes <= limit.rlim_cur;
}

/* Gives a context the file: 0 or an errno. */
static int adopt(struct vb_context *c, int fd, struct vb_share_table *t)
{
	struct vb_share *own = calloc(ENTRIES, sizeof(*own));
	struct stat file;

	if (!own)
		return ENOMEM;
	if (fstat(fd, &file)) {
		free(own);
		return EBADF;
	}
	c->shares_inode = file.st_ino;
	c->shares_device = file.st_dev;
	c->verbs.context.cmd_fd = fd;
	c->shares = t;
	c->own = own;
	vb_engine_lock();
	c->next = contexts;
	contexts = c;
	vb_engine_unlock();
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
	struct vb_share_table *t = NULL;
	int fd, err;

	if (!may_grow(sizeof(*t))) {
		/* No object has a handle. Programs pass the descriptor on and poll it. */
		c->verbs.context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		return c->verbs.context.cmd_fd < 0 ? errno : 0;
	}
	fd = memfd_create("verbena-context", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return errno;
	if (!ftruncate(fd, sizeof(*t)) && !fcntl(fd, F_ADD_SEALS, SEALS))
		t = map(fd);
	if (!t) {
		err = errno;
		close(fd);
		return err;
	}
	memcpy(t->magic, magic, sizeof(magic));
	t->guid = c->device->guid;
	strcpy(t->device, c->device->ibv.name);
	t->end = DM_BEGINS;
	err = adopt(c, fd, t);
	if (err) {
		munmap(t, sizeof(*t));
		close(fd);
	}
	return err;
}

void vb_share_close(struct vb_context *c)
{
	close(c->verbs.context.cmd_fd);
	if (!c->shares)
		return;
	vb_engine_lock();
	for (struct vb_context **p = &contexts; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	vb_engine_unlock();
	munmap(c->shares, sizeof(*c->shares));
	free(c->own);
	c->shares = NULL;
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
	err = adopt(c, cmd_fd, t);
	if (err) {
		munmap(t, sizeof(*t));
		c->verbs.context.cmd_fd = -1; /* it is the caller's */
	}
	return err;
}

/* Sets an entry, which others read meanwhile. */
static void fill(struct vb_share *e, uint64_t state, const struct vb_share *object)
{
	e->access = object->access;
	e->pid = self;
	e->log_align = object->log_align;
	e->library = object->library;
	e->addr = object->addr;
	e->length = object->length;
	e->iova = object->iova;
	atomic_store(&e->state, state);
}

uint32_t vb_share_add(struct ibv_context *ctx, enum vb_share_kind kind,
		      const struct vb_share *object)
{
	struct vb_context *c = vb_context_of(ctx);
	struct vb_share_table *t = c->shares;

	for (int i = 0; t && i < TRIES; i++) {
		uint32_t n = atomic_fetch_add(&t->next, 1) % ENTRIES, generation;
		uint64_t state = atomic_load(&t->at[n].state), claimed;

		if (kind_of(state) != VB_SHARE_FREE)
			continue;
		generation = generation_of(state) % (GENERATIONS - 1) + 1;
		claimed = state_of(state, generation, VB_SHARE_CHANGING);
		if (!atomic_compare_exchange_strong(&t->at[n].state, &state, claimed))
			continue;
		state = state_of(claimed, generation, kind);
		fill(&c->own[n], state, object);
		fill(&t->at[n], state, object);
		return generation << ENTRY_BITS | n;
	}
	return 0;
}

/* Returns the entry of a handle in a table, or NULL if it has another generation. */
static struct vb_share *entry(struct vb_share *at, uint32_t handle)
{
	struct vb_share *e = &at[handle % ENTRIES];

	return handle && generation_of(atomic_load(&e->state)) == handle >> ENTRY_BITS ? e : NULL;
}

/* Sets the state of both entries of an object of this context, or of none. */
static void put(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		const struct vb_share *object)
{
	struct vb_context *c = vb_context_of(ctx);
	struct vb_share *e, *own;
	uint64_t state;

	if (!c->shares)
		return;
	e = entry(c->shares->at, handle);
	own = entry(c->own, handle);
	if (!e || !own)
		return;
	state = state_of(atomic_load(&e->state), handle >> ENTRY_BITS, VB_SHARE_CHANGING);
	atomic_store(&e->state, state);
	atomic_store(&own->state, state);
	state = state_of(state, handle >> ENTRY_BITS, kind);
	fill(own, state, object);
	fill(e, state, object);
}

void vb_share_change(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		     const struct vb_share *object)
{
	put(ctx, handle, kind, object);
}

void vb_share_remove(struct ibv_context *ctx, uint32_t handle)
{
	static const struct vb_share nothing;

	put(ctx, handle, VB_SHARE_FREE, &nothing);
}

/* Copies the object of a handle in a table: 0 or EINVAL. */
static int find(struct vb_share *at, uint32_t handle, enum vb_share_kind kind,
		struct vb_share *object)
{
	struct vb_share *e = entry(at, handle);
	uint64_t state = e ? atomic_load(&e->state) : 0;

	if (kind_of(state) != kind || generation_of(state) != handle >> ENTRY_BITS)
		return EINVAL;
	object->access = e->access;
	object->pid = e->pid;
	object->log_align = e->log_align;
	object->library = e->library;
	object->addr = e->addr;
	object->length = e->length;
	object->iova = e->iova;
	object->state = state;
	/* It did not change meanwhile. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&e->state) == state ? 0 : EINVAL;
}

int vb_share_find(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		  struct vb_share *object)
{
	struct vb_context *c = vb_context_of(ctx);

	return c->shares ? find(c->shares->at, handle, kind, object) : EINVAL;
}

int vb_share_own(struct ibv_context *ctx, uint32_t handle, enum vb_share_kind kind,
		 struct vb_share *object)
{
	const struct vb_context *with = vb_context_of(ctx);
	int found = 0;

	vb_engine_lock();
	for (struct vb_context *c = contexts; c && !found; c = c->next)
		found = c->shares_inode == with->shares_inode &&
			c->shares_device == with->shares_device &&
			!find(c->own, handle, kind, object) && object->pid == self;
	vb_engine_unlock();
	return found;
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
	int fd;

	if (!c->shares)
		return ENOMEM;
	fd = file_of(c);
	if (fd < 0)
		return errno;
	*at = atomic_fetch_add(&c->shares->end, length);
	if (*at < DM_BEGINS || *at > DM_ENDS || length > DM_ENDS - *at || !may_grow(*at + length))
		return ENOMEM;
	while (fallocate(fd, 0, (off_t)*at, (off_t)length))
		if (errno != EINTR)
			return ENOMEM;
	return 0;
}

int vb_share_has(struct ibv_context *ctx, uint64_t at, uint64_t length)
{
	int fd = file_of(vb_context_of(ctx));
	struct stat file;

	return fd >= 0 && !fstat(fd, &file) && at >= DM_BEGINS && at <= (uint64_t)file.st_size &&
	       length <= (uint64_t)file.st_size - at &&
	       at % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
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
