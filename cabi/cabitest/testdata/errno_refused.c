/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errno after functions that serve nobody and refuse all: each argument is name@VERSION. They
 * ignore their arguments, and their result is taken as an int: an errno, -1, or the lower half of
 * NULL.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW), *cm = dlopen("librdmacm.so.1", RTLD_NOW);

	if (!verbs || !cm)
		return 1;
	for (int i = 1; i < argc; i++) {
		char *at = strchr(argv[i], '@');
		int (*fn)(void *, void *, void *, void *), r;

		*at = 0;
		fn = (int (*)(void *, void *, void *, void *))dlvsym(cm, argv[i], at + 1);
		if (!fn) {
			WRONG(argv[i], "%s", dlerror());
			continue;
		}
		errno = BEFORE;
		r = fn(NULL, NULL, NULL, NULL);
		if (errno == BEFORE || (r > 0 && errno != r))
			WRONG(argv[i], "returns %d and leaves errno at %d", r, errno);
	}
	return wrong != 0;
}
