/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A function of the private nodes. rdma-core renames IBVERBS_PRIVATE_n when it changes the
 * interface to its providers: 34 until rdma-core 56, then 57, 59, 64 and 65. The library of a
 * vendor asks for the node that it was built with, so each of our functions is in all of them.
 *
 * It is defined under the name private_NAME: beside an unversioned symbol at the same address the
 * linker would keep one version only.
 */
#ifndef VERBENA_PRIVATE_H
#define VERBENA_PRIVATE_H

#define VB_OTHER_NODE(name, n)                                                                     \
	__asm__(".symver private_" #n "_" #name ", " #name "@IBVERBS_PRIVATE_" #n);                \
	extern __typeof__(private_##name) private_##n##_##name                                     \
		__attribute__((alias("private_" #name), visibility("default")))

#define VB_PRIVATE_NODES(name)                                                                     \
	__asm__(".symver private_" #name ", " #name "@@IBVERBS_PRIVATE_34");                       \
	extern __typeof__(private_##name) private_##name __attribute__((visibility("default")));   \
	VB_OTHER_NODE(name, 57);                                                                   \
	VB_OTHER_NODE(name, 59);                                                                   \
	VB_OTHER_NODE(name, 64);                                                                   \
	VB_OTHER_NODE(name, 65)

#endif
