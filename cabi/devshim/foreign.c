/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a libibverbs other than Verbena's in a program under `verbena run`.
 *
 * The loader searches the directories of a program's DT_RPATH before those of LD_LIBRARY_PATH, and
 * prefers a library that is loaded already to both. So such a program is executed once more, with
 * our libraries in LD_PRELOAD. They are taken out again for its children, as librdmacm's names
 * (rread, rsend) may be those of other libraries too.
 *
 * Where that does not help, or where the program opens the other library later by its path, one
 * line on stderr says so. Without the line the program finds no device, and some then end with
 * status 0.
 *
 * Man page: ld.so(8).
 */
#include "foreign.h"
#include "next.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define VERBS "libibverbs.so"
#define PRELOAD "LD_PRELOAD"

/* A symbol that only our libibverbs has. */
#define OURS "vb_engine_get"

/* Finds the nth libibverbs of the process. */
struct copy {
	unsigned n;
	char path[PATH_MAX];
};

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	struct copy *c = arg;

	(void)size;
	if (!slash || strncmp(slash + 1, VERBS, sizeof VERBS - 1) ||
	    strlen(info->dlpi_name) >= sizeof c->path || c->n--)
		return 0;
	strcpy(c->path, info->dlpi_name);
	return 1;
}

/* Returns whether a libibverbs is loaded that is not Verbena's, and names it in c. */
static int another(struct copy *c)
{
	for (unsigned n = 0;; n++) {
		void *library;
		int ours;

		c->n = n;
		if (!dl_iterate_phdr(find, c))
			return 0;
		library = dlopen(c->path, RTLD_LAZY | RTLD_NOLOAD);
		ours = library && dlsym(library, OURS);
		if (library)
			dlclose(library);
		if (!ours)
			return 1;
	}
}

/* Writes the value of LD_PRELOAD with our two libraries. Returns whether there is room. */
static int our_libraries(char *list, size_t room)
{
	const char *slash;
	Dl_info info;
	int n;

	if (!dladdr((void *)our_libraries, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return 0;
	n = (int)(slash - info.dli_fname);
	return snprintf(list, room, "%.*s/" VERBS ".1:%.*s/librdmacm.so.1", n, info.dli_fname, n,
			info.dli_fname) < (int)room;
}

static int running; /* set under `verbena run`; written at the start */

static void say(const char *path)
{
	static _Atomic int said;
	char list[2 * PATH_MAX];

	if (!atomic_exchange(&said, 1) && our_libraries(list, sizeof list))
		dprintf(STDERR_FILENO,
			"verbena: %s uses %s, which does not see Verbena's devices; start it "
			"with " PRELOAD "=%s\n",
			program_invocation_short_name, path, list);
}

/* Executes the program once more, with our libraries. Returns if that is impossible. */
static void again(char **argv, const char *before, const char *ours)
{
	char self[PATH_MAX], *list;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	/*
	 * A program that was started by naming the loader, or runs in valgrind, would become another
	 * one.
	 */
	if (n < 0 || strstr(before, "vgpreload") || !getauxval(AT_BASE))
		return;
	self[n] = '\0';
	/* A colon at the end, which the loader ignores, marks the second execution. */
	if (asprintf(&list, "%s:%s:", before, ours) < 0)
		return;
	setenv(PRELOAD, list, 1);
	execv(self, argv);
	list[strlen(before)] = '\0';
	setenv(PRELOAD, list, 1);
	free(list);
}

/* Removes the entry that again has added, and returns whether it was there. */
static int second_time(const char *before, const char *ours)
{
	size_t length = strlen(before), tail = strlen(ours) + 2;
	char *list;

	if (length < tail || before[length - tail] != ':' || before[length - 1] != ':' ||
	    strncmp(before + length - tail + 1, ours, tail - 2))
		return 0;
	list = strndup(before, length - tail);
	if (list)
		setenv(PRELOAD, list, 1);
	free(list);
	return 1;
}

__attribute__((constructor)) static void at_start(int argc, char **argv)
{
	const char *before = secure_getenv(PRELOAD);
	char ours[2 * PATH_MAX];
	struct copy c;
	int second;

	(void)argc;
	running = secure_getenv("VERBENA_ROOT") != NULL;
	if (!running || !before || !our_libraries(ours, sizeof ours))
		return;
	second = second_time(before, ours);
	if (!another(&c))
		return;
	if (!second)
		again(argv, before, ours);
	say(c.path);
}

int another_is_loaded(void)
{
	struct copy c;

	return another(&c);
}

void look_for_another(void)
{
	int before = errno;
	struct copy c;

	if (running && another(&c))
		say(c.path);
	errno = before;
}

__attribute__((destructor)) static void at_exit(void)
{
	look_for_another();
}
