/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies from and to the kernel's structures, byte by byte as rdma-core's come out. */
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <string.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

#define COPY(function, to_type, from_type)                                                                             \
	do {                                                                                                           \
		union {                                                                                                \
			from_type s;                                                                                   \
			unsigned char raw[sizeof(from_type)];                                                          \
		} from;                                                                                                \
		union {                                                                                                \
			to_type s;                                                                                     \
			unsigned char raw[sizeof(to_type)];                                                            \
		} to = {.raw = {0}};                                                                                   \
		for (size_t i = 0; i < sizeof(from); i++)                                                              \
			from.raw[i] = i * 7 + 1;                                                                       \
		function(&to.s, &from.s);                                                                              \
		printf("%s:", #function);                                                                              \
		for (size_t i = 0; i < sizeof(to); i++)                                                                \
			printf(" %02x", to.raw[i]);                                                                    \
		printf("\n");                                                                                          \
	} while (0)

int main(void)
{
	COPY(ibv_copy_ah_attr_from_kern, struct ibv_ah_attr, struct ib_uverbs_ah_attr);
	COPY(ibv_copy_qp_attr_from_kern, struct ibv_qp_attr, struct ib_uverbs_qp_attr);
	COPY(ibv_copy_path_rec_from_kern, struct ibv_sa_path_rec, struct ib_user_path_rec);
	COPY(ibv_copy_path_rec_to_kern, struct ib_user_path_rec, struct ibv_sa_path_rec);
	return 0;
}
