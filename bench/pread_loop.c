/*
 * pread_loop - what a careful person writes by hand: threads that take the next file of a list,
 *open it, read it whole, and close it. A peer of the loader, so nothing here is Shoal's.
 *
 *	find DIR -type f -printf '%p\t%s\n' | shuf | pread_loop THREADS direct|buffered
 *
 * Prints files a second, MB a second, and microseconds of CPU a file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ALIGN       4096u
#define THREADS_MAX 256
#define READ_MAX    ((size_t)8 << 20) /* one call: what is larger is read in parts */

struct file {
	char *path;
	size_t size;
};

static struct file *file;
static size_t nr_files;
static atomic_size_t next_file;
static int open_flags = O_RDONLY | O_CLOEXEC;
static _Atomic uint64_t nr_bytes;

static _Noreturn void die(const char *words, const char *what)
{
	fprintf(stderr, "pread_loop: %s%s\n", words, what);
	exit(1);
}

static void read_list(void)
{
	size_t cap = 0, room = 0;
	char *line = NULL;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 0) {
		char *tab = strchr(line, '\t');

		line[n - 1] = '\0';
		if (!tab)
			die("no tab in: ", line);
		*tab = '\0';
		if (nr_files == room) {
			room = room ? 2 * room : 1024;
			file = realloc(file, room * sizeof(*file));
		}
		if (!file)
			die("out of memory", "");
		file[nr_files++] = (struct file){ strdup(line), strtoull(tab + 1, NULL, 10) };
	}
	free(line);
}

static void read_file(const struct file *f, uint8_t *buf)
{
	int fd = open(f->path, open_flags);
	size_t got = 0;
	ssize_t n = 1;

	if (fd < 0)
		die("cannot open ", f->path);
	while (got < f->size && n > 0) {
		size_t want = f->size - got < READ_MAX ? f->size - got : READ_MAX;

		want = (want + ALIGN - 1) / ALIGN * ALIGN;
		n = pread(fd, buf, want, (off_t)got);
		got += n > 0 ? (size_t)n : 0;
	}
	if (got != f->size)
		die("cannot read all of ", f->path);
	close(fd);
	nr_bytes += got;
}

static void *run(void *buf)
{
	size_t i;

	while ((i = atomic_fetch_add(&next_file, 1)) < nr_files)
		read_file(&file[i], buf);
	return NULL;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	int nr = argc == 3 ? atoi(argv[1]) : 0;
	double start, cpu;

	if (nr < 1 || nr > THREADS_MAX)
		die("usage: pread_loop THREADS direct|buffered < LIST", "");
	if (strcmp(argv[2], "direct") == 0)
		open_flags |= O_DIRECT;
	read_list();
	start = seconds();
	cpu = cpu_seconds();
	for (int i = 0; i < nr; i++) {
		void *buf = aligned_alloc(ALIGN, READ_MAX + ALIGN);

		if (!buf || pthread_create(&thread[i], NULL, run, buf) != 0)
			die("cannot start a thread", "");
	}
	for (int i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	start = seconds() - start;
	cpu = cpu_seconds() - cpu;
	printf("%.1f\t%.2f\t%.3f\n", (double)nr_files / start, (double)nr_bytes / start * 1e-6,
	       cpu * 1e6 / (double)nr_files);
	return 0;
}
