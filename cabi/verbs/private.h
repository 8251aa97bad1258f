/*
 * A function of two private nodes, IBVERBS_PRIVATE_34 and IBVERBS_PRIVATE_64. It
 * is defined under another name, private_ and its own, which is exported in
 * both: beside an unversioned symbol at its place the linker would keep one
 * version only.
 */
#ifndef VERBENA_PRIVATE_H
#define VERBENA_PRIVATE_H

#define VB_PRIVATE_NODES(name)                                                                           \
	__asm__(".symver private_" #name ", " #name "@@IBVERBS_PRIVATE_34");                             \
	__asm__(".symver private_64_" #name ", " #name "@IBVERBS_PRIVATE_64");                           \
	extern __typeof__(private_##name) private_##name __attribute__((visibility("default")));         \
	extern __typeof__(private_##name) private_64_##name __attribute__((alias("private_" #name), visibility("default")))

#endif
