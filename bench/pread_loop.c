/*
 * pread_loop - what a careful person writes by hand: threads that take the next file of a list,
 * open it, read it whole, and close it. A peer of the loader, so nothing here is Shoal's.
 *
 *	find DIR -type f -printf '%p\t%s\n' | shuf | pread_loop THREADS direct|buffered [MB
 *[ROUNDS]]
 *
 * Each thread reads into one buffer again and again, which stays in its caches. With MB, the
 * buffers of all threads have so many megabytes together, and each thread goes through its part, as
 * it must if somebody else uses what was read. ROUNDS: the list is read so often, 1 if it is
 *absent; the fastest is printed.
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ALIGN       4096u
#define HUGE_PAGE   ((size_t)2 << 20)
#define THREADS_MAX 256
#define READ_MAX    ((size_t)8 << 20) /* one call: what is larger is read in parts */

struct file {
	char *path;
	size_t size;
};

static struct file *file;
static size_t nr_files, ring; /* bytes of a thread's buffers; 0: one buffer */
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

/* Bytes that are read for @size, in whole pages. */
static size_t whole(size_t size)
{
	return (size + ALIGN - 1) / ALIGN * ALIGN;
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

		want = whole(want);
		n = pread(fd, ring ? buf + got : buf, want, (off_t)got);
		got += n > 0 ? (size_t)n : 0;
	}
	if (got != f->size)
		die("cannot read all of ", f->path);
	close(fd);
	nr_bytes += got;
}

static void *run(void *arg)
{
	uint8_t *buf = arg;
	size_t i, at = 0;

	while ((i = atomic_fetch_add(&next_file, 1)) < nr_files) {
		if (at + whole(file[i].size) > ring)
			at = 0;
		read_file(&file[i], buf + at);
		at += ring ? whole(file[i].size) : 0;
	}
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

/* Huge pages that are touched already, as a loader's memory is after a moment. */
static uint8_t *take_buffer(void)
{
	size_t len = ring > READ_MAX + ALIGN ? ring : READ_MAX + ALIGN;
	uint8_t *buf;

	for (size_t i = 0; ring && i < nr_files; i++)
		if (whole(file[i].size) > ring)
			die("the buffers are smaller than ", file[i].path);
	len = (len + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	buf = aligned_alloc(HUGE_PAGE, len);
	if (!buf)
		die("out of memory", "");
	madvise(buf, len, MADV_HUGEPAGE);
	memset(buf, 1, ring);
	return buf;
}

/* Read all files once. */
static void read_all(int nr, uint8_t *const *buf)
{
	pthread_t thread[THREADS_MAX];

	next_file = 0;
	for (int i = 0; i < nr; i++)
		if (pthread_create(&thread[i], NULL, run, buf[i]) != 0)
			die("cannot start a thread", "");
	for (int i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	int nr = argc >= 3 && argc <= 5 ? atoi(argv[1]) : 0, rounds = argc > 4 ? atoi(argv[4]) : 1;
	uint8_t *buf[THREADS_MAX];
	double start, cpu, nr_read;

	if (nr < 1 || nr > THREADS_MAX || rounds < 1)
		die("usage: pread_loop THREADS direct|buffered [MB [ROUNDS]] < LIST", "");
	if (strcmp(argv[2], "direct") == 0)
		open_flags |= O_DIRECT;
	if (argc > 3)
		ring = (size_t)strtoull(argv[3], NULL, 10) * 1000000 / (size_t)nr / ALIGN * ALIGN;
	read_list();
	for (int i = 0; i < nr; i++)
		buf[i] = take_buffer();
	start = seconds();
	cpu = cpu_seconds();
	for (int i = 0; i < rounds; i++)
		read_all(nr, buf);
	start = seconds() - start;
	cpu = cpu_seconds() - cpu;
	nr_read = (double)nr_files * rounds;
	printf("%.1f\t%.2f\t%.3f\n", nr_read / start, (double)nr_bytes / start * 1e-6,
	       cpu * 1e6 / nr_read);
	return 0;
}
