/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes a program that has nothing of this process: no parent, process group, environment or
 * handler of signals, and no descriptor but one that it is given. Only the session is the same, as
 * in Go (spawn of portshare). The application finds no unknown child, not even an ended one, and
 * gets no SIGCHLD: the process between ends without a signal (clone(2)), and is waited for by
 * __WCLONE.
 *
 * Both processes have the memory of this one until the program is executed, as those of
 * posix_spawn(3): nothing of it is copied, and no handler of pthread_atfork(3) runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "detach.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)

/* Where close_range(2) is not there, descriptors up to here are closed. */
#define FEW_DESCRIPTORS 1024

/*
 * Some interceptors of sanitizers, and of libverbena-preload.so, are meant for one process and act
 * in the memory of two: clone(2) is a fork to ThreadSanitizer, and sigaction(2) forgets the
 * handlers of this process. So clone is the C library's own, and the other processes make system
 * calls directly.
 */
typedef int clone_function(int (*)(void *), void *, int, void *, ...);

static clone_function *own_clone(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *own = libc ? dlsym(libc, "clone") : NULL;

	if (libc)
		dlclose(libc); /* it stays */
	return own ? (clone_function *)own : clone;
}

/* Room for the kernel's struct sigaction, of zeros: SIG_DFL, no flags and no mask. */
static const char usual[128];
#define KERNEL_SIGSET_BYTES 8

struct program {
	clone_function *clone;
	const char *path;
	const char *const *argv;
	int await, in;
	char *stack; /* of the process that executes it */
};

static int execute(void *arg)
{
	const struct program *p = arg;
	static char *const no_environment[] = { NULL };
	static const char none[KERNEL_SIGSET_BYTES];
	long null;

	for (int sig = 1; sig < NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, usual, NULL, KERNEL_SIGSET_BYTES);
	syscall(SYS_setpgid, 0, 0);
	null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	if (null < 0 || syscall(SYS_chdir, "/"))
		syscall(SYS_exit_group, 127);
	for (int fd = 2; fd >= 0; fd--) { /* null may be among them */
		long from = fd == 0 && p->in >= 0 ? p->in : null;

		if (fd != from && syscall(SYS_dup3, from, fd, 0) < 0)
			syscall(SYS_exit_group, 127);
	}
	if (syscall(SYS_close_range, 3, ~0U, 0))
		for (int fd = 3; fd < FEW_DESCRIPTORS; fd++)
			syscall(SYS_close, fd);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, none, NULL, KERNEL_SIGSET_BYTES);
	syscall(SYS_execve, p->path, p->argv, no_environment);
	syscall(SYS_exit_group, 127);
	return 0;
}

static int between(void *arg)
{
	struct program *p = arg;
	int pid = p->clone(execute, p->stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, p);
	int failed = pid < 0, status = 0;

	if (!failed && p->await)
		failed = syscall(SYS_wait4, pid, &status, 0, NULL) != pid || status;
	syscall(SYS_exit_group, failed);
	return 0;
}

/* Orphans become this process's children. */
static int takes_orphans(void)
{
	int subreaper = 0;

	return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper);
}

int vb_detach(const char *path, int await, int in, const char *a, const char *b, const char *c)
{
	const char *argv[] = { path, a, b, c, NULL };
	struct program p = { .clone = own_clone(), .path = path, .argv = argv,
			     .await = await, .in = in };
	int before = errno, status = 1, err = 0;
	sigset_t all, mask;
	char *stacks;
	pid_t pid;

	if (takes_orphans())
		return EPERM;
	stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return ENOMEM;
	p.stack = stacks;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask); /* a handler would work on memory of two processes */
	pid = p.clone(between, stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK, &p);
	if (pid < 0)
		err = errno;
	else if (waitpid(pid, &status, __WCLONE) == pid && status)
		err = EAGAIN;
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	munmap(stacks, 2 * STACK_BYTES);
	errno = before;
	return err;
}

/* In a child of a fork the engine is a copy without a name: the front has it. */
void vb_library_dir(char *dir, unsigned size)
{
	void *at[] = { (void *)vb_detach, dlsym(RTLD_DEFAULT, "ibv_get_device_list") };
	Dl_info info;

	dir[0] = 0;
	for (int i = 0; i < 2; i++) {
		const char *end;

		if (!at[i] || !dladdr(at[i], &info) || !info.dli_fname)
			continue;
		end = strrchr(info.dli_fname, '/');
		if (end && strncmp(info.dli_fname, "/proc/", 6) && strncmp(info.dli_fname, "/memfd:", 7)) {
			snprintf(dir, size, "%.*s", (int)(end - info.dli_fname), info.dli_fname);
			return;
		}
	}
}
