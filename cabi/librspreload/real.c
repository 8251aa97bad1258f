/* SPDX-License-Identifier: BSD-2-Clause */
#include "real.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <rdma/rsocket.h>

static struct real functions;
static uintptr_t text_begin, text_end; /* of librdmacm */

/* dlsym returns a data pointer. POSIX promises that it may be a function pointer. */
#define FIND(name) (*(void **)&functions.name = dlsym(RTLD_NEXT, #name))

static int find_text(struct dl_phdr_info *info, size_t size, void *inside)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
			  end = begin + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && begin <= (uintptr_t)inside &&
		    (uintptr_t)inside < end) {
			text_begin = begin;
			text_end = end;
			return 1;
		}
	}
	return 0;
}

static void find_all(void)
{
	FIND(socket);
	FIND(bind);
	FIND(listen);
	FIND(accept4);
	FIND(connect);
	FIND(shutdown);
	FIND(close);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(read);
	FIND(readv);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(write);
	FIND(writev);
	FIND(sendfile);
	FIND(poll);
	FIND(select);
	FIND(getpeername);
	FIND(getsockname);
	FIND(setsockopt);
	FIND(getsockopt);
	FIND(fcntl);
	FIND(epoll_ctl);
	FIND(epoll_wait);
	FIND(epoll_pwait);
	FIND(ioctl);
	FIND(ppoll);
	/* Not &rsocket, which may be a stub of our own. */
	void *inside = dlsym(RTLD_DEFAULT, "rsocket");

	dl_iterate_phdr(find_text, inside);
}

const struct real *real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_all);
	return &functions;
}

bool from_librdmacm(const void *address)
{
	return text_begin <= (uintptr_t)address && (uintptr_t)address < text_end;
}
