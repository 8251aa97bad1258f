/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads the engine: libverbena-engine.so beside this library, at the first
 * object that needs it. Listing, opening and querying devices do without.
 *
 * The engine cannot survive a fork: its threads stay behind. So a child forgets
 * it, and loads a copy of the file when it needs one. The copy must be another
 * file to the loader, which would return the dead one otherwise: a memfd.
 */
#define _GNU_SOURCE
#include "front.h"
#include "fork.h"
#include "gid.h"
#include "limits.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENGINE_FILE "libverbena-engine.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Read without the lock; written under it. */
static _Atomic(struct vb_engine *) current;
/* guarded by lock */
static unsigned copies; /* engines loaded in this address space, dead ones too */

/* The engine's descriptors at the last fork; guarded by lock, which is held over it. */
static int *engine_fds, engine_fd_count, engine_fd_room;

/* Stands for every function of a dead engine's table. */
static int dead_call(void)
{
	return EIO;
}

/*
 * Fills the table of a dead engine. A function is called through a pointer of
 * another type here: all of them return int or nothing and take their arguments
 * in the caller's registers and stack, so dead_call leaves them alone.
 */
static void kill_table(struct vb_engine *engine)
{
	int (*dead)(void) = dead_call;
	char *at = (char *)engine + offsetof(struct vb_engine, descriptors);

	for (; at < (char *)(engine + 1); at += sizeof(dead))
		memcpy(at, &dead, sizeof(dead));
	engine->version = 0;
}

void vb_engine_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vb_engine_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* -- loading ------------------------------------------------------------------ */

static int debugging(void)
{
	const char *v = secure_getenv("VERBENA_DEBUG");

	return v && strcmp(v, "1") == 0; /* as the engine reads it */
}

/*
 * Prints the reason, and returns the value for errno. Without the engine no program works: its user
 * is told once, and each time if that is wanted.
 */
static int refuse_as(int err, const char *what, const char *why)
{
	static int told; /* guarded by lock */

	if (debugging() || !told++)
		fprintf(stderr, "verbena: %s: %s\n", what, why);
	return err;
}

static int refuse(const char *what, const char *why)
{
	return refuse_as(ELIBACC, what, why);
}

/*
 * Finds the file beside this library: its name, malloc'ed, or NULL. Names are
 * kept off the stack, which may be a coroutine's of 16 KiB and is the loader's
 * too.
 */
static char *engine_path(void)
{
	Dl_info info;
	const char *slash;
	char *path;

	if (!dladdr(&lock, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	if (asprintf(&path, "%.*s" ENGINE_FILE, slash ? (int)(slash + 1 - info.dli_fname) : 0,
		     info.dli_fname) < 0)
		return NULL;
	return path;
}

/* Copies the file into a memfd and returns it, or a negative errno. */
static int copy_file(const char *path)
{
	struct stat st;
	off_t at = 0;
	int from, to, err = 0;

	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	to = memfd_create(ENGINE_FILE, MFD_CLOEXEC);
	if (to < 0 || fstat(from, &st))
		err = errno;
	while (!err && at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, st.st_size - at);

		if (n < 0 && errno != EINTR)
			err = errno;
		else if (n == 0)
			err = EIO; /* cut short meanwhile */
	}
	close(from);
	if (err && to >= 0)
		close(to);
	return err ? -err : to;
}

/*
 * Opens the nth engine of this address space. The loader knows files by name
 * too, and a descriptor's number may come back in a child of a child: n slashes
 * make the name another.
 */
static void *open_copy(const char *path, unsigned n)
{
	int fd = copy_file(path);
	char *slashes, *name;
	void *lib = NULL;

	if (fd < 0) {
		errno = refuse(path, strerror(-fd));
		return NULL;
	}
	slashes = malloc(n + 1);
	if (slashes) {
		memset(slashes, '/', n);
		slashes[n] = '\0';
		if (asprintf(&name, "/proc/self/fd%s%d", slashes, fd) >= 0) {
			lib = dlopen(name, RTLD_LOCAL | RTLD_NOW);
			free(name);
		}
		free(slashes);
	}
	close(fd);
	return lib;
}

/*
 * Opens the file of an engine, a copy of it if there was one before: its handle or
 * NULL. The engine's static TLS and its threads stay: there is no dlclose.
 *
 * The engine's threads begin with this thread's mask, and keep it. Signals are the
 * application's: threads of its own are to get them.
 *
 * The runtime takes SIGURG to preempt goroutines by, and does not (asyncpreemptoff). So SIGURG
 * gets the action back that it had. A handler gets SA_ONSTACK, as the runtime does with the others
 * that it finds: a goroutine's stack may be too small for it.
 */
static void *open_engine(const char *path)
{
	struct sigaction urgent;
	sigset_t all, before;
	void *lib;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	sigaction(SIGURG, NULL, &urgent);
	lib = copies ? open_copy(path, copies) : dlopen(path, RTLD_LOCAL | RTLD_NOW);
	if (urgent.sa_handler != SIG_DFL && urgent.sa_handler != SIG_IGN)
		urgent.sa_flags |= SA_ONSTACK;
	if (lib)
		sigaction(SIGURG, &urgent, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return lib;
}

/* Loads the engine's file at path into *out: 0 or an errno. The lock is held. */
static int load_file(const char *path, struct vb_engine **out)
{
	const struct vb_engine *table;
	struct vb_engine *engine;
	const char *lacking;
	void *lib;
	int err = vb_limits_allow_engine(&lacking);

	if (err)
		return refuse_as(err, path, lacking);
	lib = open_engine(path);
	if (!lib) {
		const char *why = dlerror();

		return refuse(path, why ? why : "cannot be loaded");
	}
	copies++;
	table = dlsym(lib, VB_ENGINE_SYMBOL);
	if (!table)
		return refuse(path, "is no engine; install Verbena anew");
	if (table->version != VB_ENGINE_VERSION)
		return refuse(path,
			      "is the engine of another version of libibverbs.so.1; install Verbena anew");
	engine = malloc(sizeof(*engine));
	if (!engine)
		return ENOMEM;
	*engine = *table;
	engine->use_gid_tables(vb_gid_addrs);
	*out = engine;
	return 0;
}

static int load(struct vb_engine **out)
{
	char *path = engine_path();
	int err = path ? load_file(path, out) : refuse(ENGINE_FILE, "its directory cannot be told");

	free(path);
	return err;
}

const struct vb_engine *vb_engine_get(void)
{
	struct vb_engine *engine = atomic_load_explicit(&current, memory_order_acquire);
	int err = 0;

	if (engine)
		return engine;
	vb_engine_lock();
	engine = atomic_load_explicit(&current, memory_order_relaxed);
	if (!engine) {
		err = load(&engine);
		if (!err)
			atomic_store_explicit(&current, engine, memory_order_release);
	}
	vb_engine_unlock();
	if (err)
		errno = err;
	return engine;
}

/* -- fork ------------------------------------------------------------------------ */

/*
 * Asks the engine for its descriptors until there is room for all. It may open
 * more meanwhile, and without memory the child keeps some open: neither harms
 * more than the child's own table of descriptors.
 */
void vb_engine_before_fork(void)
{
	struct vb_engine *engine;

	vb_engine_lock();
	engine_fd_count = 0;
	engine = atomic_load_explicit(&current, memory_order_relaxed);
	if (!engine)
		return;
	for (;;) {
		int n = engine->descriptors(engine_fds, engine_fd_room), *more;

		engine_fd_count = n < engine_fd_room ? n : engine_fd_room;
		if (n <= engine_fd_room)
			return;
		more = realloc(engine_fds, 2 * n * sizeof(*more));
		if (!more)
			return;
		engine_fds = more;
		engine_fd_room = 2 * n;
	}
}

void vb_engine_after_fork_in_parent(void)
{
	vb_engine_unlock();
}

void vb_engine_after_fork_in_child(void)
{
	struct vb_engine *engine = atomic_load_explicit(&current, memory_order_relaxed);

	for (int i = 0; i < engine_fd_count; i++)
		close(engine_fds[i]);
	if (engine) {
		kill_table(engine); /* objects of before point at it: it is never freed */
		atomic_store_explicit(&current, NULL, memory_order_relaxed);
	}
	vb_engine_unlock();
}
