/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks resource limits before the engine is loaded. Its runtime ends the process if it finds no
 * addresses or descriptors at its start. An application under RLIMIT_AS or RLIMIT_NOFILE gets an
 * errno instead.
 */
#define _GNU_SOURCE
#include "limits.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The addresses that the runtime and the stacks of its threads reserve, mostly without memory. It
 * failed under a limit of 900 MB (measured).
 */
#define ADDRESSES ((size_t)1 << 30)

/* The descriptors open when the runtime has opened its poller, at most, and some to spare. */
#define DESCRIPTORS 8

static int addresses(void)
{
	void *at = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return ENOMEM;
	munmap(at, ADDRESSES);
	return 0;
}

static int descriptors(void)
{
	int fds[DESCRIPTORS], n = 0, err = 0;

	while (n < DESCRIPTORS && !err) {
		fds[n] = eventfd(0, EFD_CLOEXEC);
		if (fds[n] < 0)
			err = errno;
		else
			n++;
	}
	while (n > 0)
		close(fds[--n]);
	return err;
}

int vb_limits_allow_engine(const char **why)
{
	int err = addresses();

	*why = "1 GiB of addresses is not free; raise the limit (ulimit -v)";
	if (err)
		return err;
	*why = "8 descriptors are not free; raise the limit of open files (ulimit -n)";
	return descriptors();
}
