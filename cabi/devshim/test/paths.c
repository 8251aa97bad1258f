/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs twice. Without arguments it makes a VERBENA_ROOT and executes itself under the shim (argv[1]
 * is the library) with the name of that directory. Then it makes every call that the shim redirects
 * with a path of each kind: redirected, redirected and missing, and not redirected.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#undef NDEBUG

static const char node[] = "/dev/infiniband/uverbs3";
static const char missing[] = "/dev/infiniband/uverbs4";
static const char attribute[] = "/sys/class/infiniband/roce_test/node_type";
static const char neighbour[] = "/dev/infinibandx";
static const char mad_node[] = "/dev/infiniband/umad3";

static void *volatile none;

static void write_file(const char *root, const char *path, const char *content)
{
	char where[PATH_MAX];
	FILE *f;

	snprintf(where, sizeof where, "%s%s", root, path);
	for (char *slash = strchr(where + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert(mkdir(where, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	f = fopen(where, "w");
	assert(f && fputs(content, f) >= 0 && fclose(f) == 0);
}

static void is_device(mode_t mode, dev_t rdev)
{
	assert(S_ISCHR(mode));
	assert(major(rdev) == 231 && minor(rdev) == 195);
}

static void opens(void)
{
	char buffer[8] = "";
	int fd, dir;
	FILE *f;

	fd = open(node, O_RDWR | O_CLOEXEC);
	assert(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && close(fd) == 0);
	fd = open64(attribute, O_RDONLY);
	assert(fd >= 0 && read(fd, buffer, sizeof buffer - 1) == 2 && strcmp(buffer, "1\n") == 0 &&
	       close(fd) == 0);
	fd = openat(AT_FDCWD, attribute, O_RDONLY);
	assert(fd >= 0 && close(fd) == 0);
	errno = 0;
	assert(open(missing, O_RDWR) == -1 && errno == ENOENT);
	errno = 0;
	assert(open(neighbour, O_RDONLY) == -1 && errno == ENOENT);

	/* Names relative to a redirected directory are not redirected again. */
	dir = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
	assert(dir >= 0);
	fd = openat(dir, "roce_test/node_type", O_RDONLY);
	assert(fd >= 0 && close(fd) == 0 && close(dir) == 0);

	f = fopen(attribute, "r");
	assert(f && fgets(buffer, sizeof buffer, f) && strcmp(buffer, "1\n") == 0 && fclose(f) == 0);
	f = fopen64("/proc/sys/net/rdma_ucm/max_backlog", "r");
	assert(f && fgets(buffer, sizeof buffer, f) && strcmp(buffer, "1024\n") == 0 && fclose(f) == 0);
	assert(!fopen(missing, "r") && errno == ENOENT);
}

/* There is no device of this name to open: the program does not get the plain file. */
static void mad_nodes(void)
{
	int fd = open("/dev/null", O_RDWR);

	errno = 0;
	assert(open(mad_node, O_RDWR) == -1 && errno == ENODEV);
	errno = 0;
	assert(openat(AT_FDCWD, mad_node, O_RDWR | O_NONBLOCK) == -1 && errno == ENODEV);
	errno = 0;
	assert(open("/dev/infiniband/umad4", O_RDWR) == -1 && errno == ENOENT);
	errno = 0;
	assert(ioctl(fd, IB_USER_MAD_ENABLE_PKEY) == -1 && errno == ENOTTY && close(fd) == 0);
}

static void modes(const char *directory)
{
	char path[PATH_MAX];
	struct stat s;
	int fd;

	/* The mode that open gets reaches the file that it creates. */
	umask(0);
	snprintf(path, sizeof path, "%s/created", directory);
	fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0640);
	assert(fd >= 0 && close(fd) == 0 && stat(path, &s) == 0 && (s.st_mode & 07777) == 0640 &&
	       unlink(path) == 0);
	fd = openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_EXCL, 0604);
	assert(fd >= 0 && close(fd) == 0 && stat(path, &s) == 0 && (s.st_mode & 07777) == 0604 &&
	       unlink(path) == 0);
}

static void directories(void)
{
	struct dirent **list, *entry;
	int found = 0;
	DIR *d;

	d = opendir("/dev/infiniband/");
	assert(d);
	while ((entry = readdir(d)))
		found += strcmp(entry->d_name, "uverbs3") == 0;
	assert(found == 1 && closedir(d) == 0);
	found = scandir("/sys/class/infiniband", &list, NULL, alphasort);
	assert(found == 3 && strcmp(list[2]->d_name, "roce_test") == 0);
	while (found--)
		free(list[found]);
	free(list);
	errno = 0;
	assert(!opendir("/sys/class/infinibandx") && errno == ENOENT);
	/* A relative path below a redirected directory. */
	assert(chdir("/sys/class/infiniband") == 0 && access("roce_test/node_type", R_OK) == 0);
	errno = 0;
	assert(chdir("/sys/class/infinibandx") == -1 && errno == ENOENT);
	assert(chdir("/") == 0 && access("roce_test", F_OK) == -1);
	d = opendir("/");
	assert(d && closedir(d) == 0);
}

static void stats(void)
{
	struct stat s;
	struct stat64 s64;
	struct statx x;

	assert(stat(node, &s) == 0);
	is_device(s.st_mode, s.st_rdev);
	assert(lstat(node, &s) == 0);
	is_device(s.st_mode, s.st_rdev);
	assert(stat64(node, &s64) == 0);
	is_device(s64.st_mode, s64.st_rdev);
	assert(lstat64(node, &s64) == 0);
	is_device(s64.st_mode, s64.st_rdev);
	assert(fstatat(AT_FDCWD, node, &s, 0) == 0);
	is_device(s.st_mode, s.st_rdev);
	assert(statx(AT_FDCWD, node, 0, STATX_BASIC_STATS, &x) == 0);
	is_device(x.stx_mode, makedev(x.stx_rdev_major, x.stx_rdev_minor));

	assert(stat(mad_node, &s) == 0 && S_ISCHR(s.st_mode) && major(s.st_rdev) == 231 &&
	       minor(s.st_rdev) == 3);

	errno = 0;
	assert(stat(missing, &s) == -1 && errno == ENOENT);
	errno = 0;
	assert(stat(neighbour, &s) == -1 && errno == ENOENT);
	assert(stat("/dev/infiniband", &s) == 0 && S_ISDIR(s.st_mode));
	assert(stat(attribute, &s) == 0 && S_ISREG(s.st_mode));
	assert(stat("/dev/null", &s) == 0 && S_ISCHR(s.st_mode) && major(s.st_rdev) == 1);
	assert(stat("/proc/self/exe", &s) == 0 && S_ISREG(s.st_mode));
	/* The C library refuses a NULL path, as without the shim. */
	errno = 0;
	assert(stat((const char *)none, &s) == -1 && errno == EFAULT);
}

static void names(const char *root)
{
	char expected[PATH_MAX], path[PATH_MAX], long_path[PATH_MAX];
	char *resolved;

	assert(access(node, R_OK | W_OK) == 0);
	assert(eaccess(node, R_OK) == 0);
	assert(euidaccess(node, R_OK) == 0);
	assert(faccessat(AT_FDCWD, node, R_OK, AT_EACCESS) == 0);
	errno = 0;
	assert(access(missing, F_OK) == -1 && errno == ENOENT);

	assert(readlink("/sys/class/infiniband_verbs/uverbs3", path, sizeof path) == 4 &&
	       memcmp(path, "next", 4) == 0);
	assert(readlinkat(AT_FDCWD, "/sys/class/infiniband_verbs/uverbs3", path, sizeof path) == 4);
	assert(readlink("/proc/self/exe", path, sizeof path) > 0);

	assert(realpath(root, expected));
	strcat(expected, "/sys/class/infiniband/roce_test");
	assert(realpath("/sys/class/infiniband/../infiniband/roce_test", path) &&
	       strcmp(path, expected) == 0);
	resolved = realpath("/sys/class/infiniband/roce_test", NULL);
	assert(resolved && strcmp(resolved, expected) == 0);
	free(resolved);
	resolved = canonicalize_file_name("/sys/class/infiniband/roce_test");
	assert(resolved && strcmp(resolved, expected) == 0);
	free(resolved);

	memset(long_path, 'x', sizeof long_path);
	memcpy(long_path, "/dev/infiniband/", 16);
	long_path[sizeof long_path - 1] = '\0';
	errno = 0;
	assert(access(long_path, F_OK) == -1 && errno == ENAMETOOLONG);
}

/* A child of the program sees the same, however it was started. */
static void children(void)
{
	int status;
	pid_t child;

	status = system("test -c /dev/infiniband/uverbs3 && test \"$(cat "
			"/sys/class/infiniband/roce_test/node_type)\" = 1");
	assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	child = fork();
	if (child == 0)
		_exit(access(node, R_OK | W_OK));
	assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	char root[] = "/tmp/verbena-preload-XXXXXX", library[PATH_MAX], command[64];
	int status;
	pid_t child;

	assert(argc == 2);
	if (getenv("VERBENA_ROOT")) {
		opens();
		mad_nodes();
		modes(argv[1]);
		directories();
		stats();
		names(argv[1]);
		children();
		/* VERBENA_ROOT is read once: a program may change its environment. */
		assert(unsetenv("VERBENA_ROOT") == 0 && access(node, R_OK) == 0);
		return 0;
	}
	assert(access(attribute, F_OK) == -1);
	assert(mkdtemp(root) && realpath(argv[1], library));
	write_file(root, node, "");
	write_file(root, mad_node, "");
	write_file(root, "/sys/class/infiniband_mad/umad3/ibdev", "roce_test\n");
	write_file(root, attribute, "1\n");
	write_file(root, "/proc/sys/net/rdma_ucm/max_backlog", "1024\n");
	write_file(root, "/sys/class/infiniband_verbs/abi_version", "6\n");
	snprintf(command, sizeof command, "%s/sys/class/infiniband_verbs/uverbs3", root);
	assert(symlink("next", command) == 0);

	child = fork();
	if (child == 0) {
		setenv("LD_PRELOAD", library, 1);
		/* Without a VERBENA_ROOT the shim changes nothing. */
		assert(system("test ! -e /dev/infiniband/uverbs3") == 0);
		setenv("VERBENA_ROOT", root, 1);
		execl("/proc/self/exe", argv[0], root, (char *)NULL);
		_exit(127);
	}
	assert(waitpid(child, &status, 0) == child);
	snprintf(command, sizeof command, "rm -rf %s", root);
	assert(system(command) == 0);
	assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("preload: paths ok\n");
	return 0;
}
