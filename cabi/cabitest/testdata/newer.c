/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that was linked to rdma-core 65: it calls functions added since 44. Most are there, but
 * have nothing to offer. Compiled with -DSTUBS it is the libraries that the program is linked with.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#define POINTERS(X) X(ibv_alloc_dmah)
#define ERRNOS(X) X(ibv_dealloc_dmah) X(ibv_query_port_speed)
#define MINUSES(X) X(ibv_dm_export_dmabuf_fd) X(rdma_query_addrinfo) X(rdma_resolve_addrinfo) X(rdma_write_cm_event) X(repoll_wait)
/* All are called without objects, and refuse that: with EINVAL if they would serve others. */
#define REFUSED(err) ((err) == EINVAL || (err) == EOPNOTSUPP)

#ifdef STUBS
#define STUB(name) void name(void) {}
POINTERS(STUB) ERRNOS(STUB) MINUSES(STUB) STUB(ibv_reg_mr_ex) STUB(ibv_alloc_buf) STUB(ibv_free_buf) STUB(ibv_reg_buf_mr) STUB(ibv_create_comp_cntr) STUB(ibv_wr_opcode_str) STUB(ibv_fork_init)
#else
#define POINTER(name) void *name(void *, void *, void *, void *);
#define INT(name) int name(void *, void *, void *, void *);
POINTERS(POINTER) ERRNOS(INT) MINUSES(INT)
/* Without a domain. */
void *ibv_reg_mr_ex(void *, void *);
void *ibv_alloc_buf(void *, size_t, void *);
void *ibv_reg_buf_mr(void *, void *, void *, size_t, int);
void ibv_free_buf(void *);
const char *ibv_wr_opcode_str(int);
int ibv_fork_init(void);
void *ibv_create_comp_cntr(void *, void *);

int main(void)
{
	int failures = ibv_fork_init() != 0;

#define IS_NULL(name)                                                                \
	errno = 0;                                                                   \
	if (name(NULL, NULL, NULL, NULL) || !REFUSED(errno))                         \
		failures += printf("%s: errno %d\n", #name, errno) > 0;
#define IS_ERRNO(name)                                                               \
	if (!REFUSED(name(NULL, NULL, NULL, NULL)))                                  \
		failures += printf("%s\n", #name) > 0;
#define IS_MINUS(name)                                                               \
	errno = 0;                                                                   \
	if (name(NULL, NULL, NULL, NULL) != -1 || !REFUSED(errno))                   \
		failures += printf("%s: errno %d\n", #name, errno) > 0;
	POINTERS(IS_NULL)
	ERRNOS(IS_ERRNO)
	MINUSES(IS_MINUS)
	if (ibv_reg_mr_ex(NULL, NULL) || ibv_alloc_buf(NULL, 1, NULL) || ibv_reg_buf_mr(NULL, NULL, NULL, 1, 0))
		failures += printf("a buffer of no domain\n") > 0;
	ibv_free_buf(NULL);
	if (ibv_create_comp_cntr(NULL, NULL))
		failures += printf("a counter of no device\n") > 0;
	if (!ibv_wr_opcode_str(0))
		failures += printf("ibv_wr_opcode_str\n") > 0;
	return failures != 0;
}
#endif
