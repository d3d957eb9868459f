/*
 * getdents_loop - the minimum that any program that lists a directory tree must do: threads that
 * take the next directory, open it, read it with getdents64 and close it. Names are only counted,
 * so this is not a competitor but a lower bound for listings. It uses no code of Shoal.
 *
 * getdents_loop THREADS DIR [statx]
 *
 * DIR contains either files or directories of files. With statx each file is also asked for its
 * size. Prints the number of names.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 64
#define READ_BYTES  (128u << 10)

struct dent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static int root;
static bool with_sizes;
static char **folder;
static size_t nr_folders, room;
static atomic_size_t next_folder;
static _Atomic uint64_t nr_files;

static _Noreturn void die(const char *words, const char *what)
{
	fprintf(stderr, "getdents_loop: %s%s\n", words, what);
	exit(1);
}

static void keep_folder(const char *name)
{
	if (name[0] == '.')
		return;
	if (nr_folders == room) {
		room = room ? 2 * room : 1024;
		folder = realloc(folder, room * sizeof(*folder));
	}
	if (!folder || !(folder[nr_folders++] = strdup(name)))
		die("out of memory", "");
}

/* For file systems that do not report types. */
static int type_of(int fd, const char *name)
{
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	return S_ISREG(st.st_mode) ? DT_REG : S_ISDIR(st.st_mode) ? DT_DIR : DT_UNKNOWN;
}

static void ask_size(int fd, const char *name)
{
	struct statx st;

	if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_TYPE,
		  &st) < 0)
		die("cannot examine ", name);
}

/* Count the files in a directory; for the root, also store the directories. */
static void read_directory(int fd, const char *name, void (*keep)(const char *name))
{
	static _Thread_local _Alignas(8) uint8_t bytes[READ_BYTES];
	uint64_t files = 0;
	long n;

	while ((n = syscall(SYS_getdents64, fd, bytes, READ_BYTES)) > 0) {
		for (long at = 0; at < n;) {
			const struct dent *d = (const struct dent *)(const void *)(bytes + at);
			int type = d->type == DT_UNKNOWN ? type_of(fd, d->name) : d->type;

			files += type == DT_REG;
			if (with_sizes && type == DT_REG)
				ask_size(fd, d->name);
			if (keep && type == DT_DIR)
				keep(d->name);
			at += d->reclen;
		}
	}
	if (n < 0)
		die("cannot read ", name);
	nr_files += files;
}

static void *walk(void *arg)
{
	size_t i;

	(void)arg;
	while ((i = next_folder++) < nr_folders) {
		int fd = openat(root, folder[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			die("cannot open ", folder[i]);
		read_directory(fd, folder[i], NULL);
		close(fd);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	long nr = argc == 3 || argc == 4 ? strtol(argv[1], NULL, 10) : 0;

	with_sizes = argc == 4 && strcmp(argv[3], "statx") == 0;
	if (nr < 1 || nr > THREADS_MAX || (argc == 4 && !with_sizes))
		die("usage: getdents_loop THREADS DIR [statx], with 1 to 64 threads", "");
	root = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die("cannot open ", argv[2]);
	read_directory(root, argv[2], keep_folder);
	for (long i = 0; i < nr; i++)
		if (pthread_create(&thread[i], NULL, walk, NULL) != 0)
			die("cannot start a thread", "");
	for (long i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	printf("%llu\n", (unsigned long long)nr_files);
	return 0;
}
