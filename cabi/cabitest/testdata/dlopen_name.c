/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens a library by the name in the first argument, as plugins do, and prints the first device that it has. */
#include "loop.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
	struct ibv_device **(*get_list)(int *);
	const char *(*get_name)(struct ibv_device *);
	struct ibv_device **list;
	void *lib;

	MUST(argc == 2);
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	MUST(lib);
	MUST(get_list = (__typeof__(get_list))dlsym(lib, "ibv_get_device_list"));
	MUST(get_name = (__typeof__(get_name))dlsym(lib, "ibv_get_device_name"));
	list = get_list(NULL);
	printf("%s\n", list && list[0] ? get_name(list[0]) : "no device");
	return failures != 0;
}
