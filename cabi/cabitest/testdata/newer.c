/*
 * A program that was linked to rdma-core 64: it calls what has been added since
 * 44, which is there and has nothing to offer. Compiled with -DSTUBS it is the
 * libraries that the program is linked with.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#define POINTERS(X) X(ibv_alloc_dmah) X(ibv_reg_mr_ex) X(ibv_alloc_buf) X(ibv_reg_buf_mr)
#define ERRNOS(X) X(ibv_dealloc_dmah) X(ibv_query_port_speed)
#define MINUSES(X) X(ibv_dm_export_dmabuf_fd) X(rdma_query_addrinfo) X(rdma_resolve_addrinfo) X(rdma_write_cm_event)

#ifdef STUBS
#define STUB(name) void name(void) {}
POINTERS(STUB) ERRNOS(STUB) MINUSES(STUB) STUB(ibv_free_buf) STUB(ibv_wr_opcode_str) STUB(ibv_fork_init)
#else
#define POINTER(name) void *name(void *, void *, void *, void *);
#define INT(name) int name(void *, void *, void *, void *);
POINTERS(POINTER) ERRNOS(INT) MINUSES(INT)
void ibv_free_buf(void *);
const char *ibv_wr_opcode_str(int);
int ibv_fork_init(void);

int main(void)
{
	int failures = ibv_fork_init() != 0;

#define IS_NULL(name)                                                                \
	errno = 0;                                                                   \
	if (name(NULL, NULL, NULL, NULL) || errno != EOPNOTSUPP)                     \
		failures += printf("%s: errno %d\n", #name, errno) > 0;
#define IS_ERRNO(name)                                                               \
	if (name(NULL, NULL, NULL, NULL) != EOPNOTSUPP)                              \
		failures += printf("%s\n", #name) > 0;
#define IS_MINUS(name)                                                               \
	errno = 0;                                                                   \
	if (name(NULL, NULL, NULL, NULL) != -1 || errno != EOPNOTSUPP)               \
		failures += printf("%s: errno %d\n", #name, errno) > 0;
	POINTERS(IS_NULL)
	ERRNOS(IS_ERRNO)
	MINUSES(IS_MINUS)
	ibv_free_buf(NULL);
	if (!ibv_wr_opcode_str(0))
		failures += printf("ibv_wr_opcode_str\n") > 0;
	return failures != 0;
}
#endif
