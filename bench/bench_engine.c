/*
 * bench_engine - read all files of a list (names relative to a directory, one per line, followed by
 * a tab and the size) in random order through an engine. Prints a line per try: the engine, files
 * per second, MB per second, and CPU time per file over all threads, including kernel workers.
 *
 * find DIR -type f -printf '%P\t%s\n' | bench_engine DIR ENGINE IN_FLIGHT direct|buffered [TRIES
 * [THREADS]]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "load/engine.h"

struct file {
	char *name;
	uint64_t size;
};

struct list {
	struct file *file;
	size_t nr;
	uint64_t largest, bytes;
};

static _Noreturn void die(const char *words)
{
	fprintf(stderr, "bench_engine: %s\n", words);
	exit(1);
}

static struct list read_list(void)
{
	struct list l = { 0 };
	char *line = NULL;
	size_t cap = 0, room = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 0) {
		char *tab = strchr(line, '\t');
		uint64_t size;

		line[n - 1] = '\0';
		if (!tab || parse_u64(tab + 1, &size) < 0)
			die("a line of the list is not 'name<tab>size'");
		*tab = '\0';
		if (l.nr == room) {
			room = room ? 2 * room : 1024;
			l.file = realloc(l.file, room * sizeof(*l.file));
		}
		if (!l.file)
			die("out of memory");
		l.file[l.nr++] = (struct file){ strdup(line), size };
		l.largest = u64_max(l.largest, size);
		l.bytes += size;
	}
	free(line);
	return l;
}

static void shuffle(struct list *l)
{
	static uint64_t s = 1;

	for (size_t i = l->nr; i > 1; i--) {
		struct file f = l->file[i - 1];
		size_t j;

		s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		j = (size_t)((s >> 33) % i);
		l->file[i - 1] = l->file[j];
		l->file[j] = f;
	}
}

static double cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Huge pages, as in the loader: far fewer pages to register. */
static uint8_t *take_pool(size_t len)
{
	size_t huge = 2u << 20;
	uint8_t *at = aligned_alloc(huge, (len + huge - 1) / huge * huge);

	if (!at)
		die("out of memory");
	madvise(at, len, MADV_HUGEPAGE);
	memset(at, 0, len);
	return at;
}

static void submit(struct load_engine *e, struct load_request *r, const struct file *f)
{
	r->name = f->name;
	r->len = f->size;
	load_engine_submit(e, r);
}

static void read_all(struct load_engine *e, const struct list *l, struct load_request *request,
		     unsigned nr)
{
	struct load_request *done[256];
	struct shoal_err err = { "" };
	size_t next = 0;

	for (; next < nr && next < l->nr; next++)
		submit(e, &request[next], &l->file[next]);
	load_engine_kick(e);
	while (load_engine_pending(e) > 0) {
		int n = load_engine_reap(e, done, 256, 1000000, &err);

		if (n < 0)
			die(err.msg);
		for (int i = 0; i < n; i++) {
			if (done[i]->result != (int64_t)done[i]->len) {
				load_engine_why(e, done[i], &err);
				die(err.msg[0] ? err.msg : "a file has another size");
			}
			if (next < l->nr)
				submit(e, done[i], &l->file[next++]);
		}
	}
}

int main(int argc, char **argv)
{
	struct load_engine_options options = { 0 };
	struct load_engine *e = NULL;
	struct load_request *request;
	struct shoal_err err = { "" };
	uint64_t in_flight, tries = 5, threads = 0;
	struct list l = read_list();
	size_t cap = (size_t)load_cap(0, l.largest);

	if (argc < 5 || parse_u64(argv[3], &in_flight) < 0 ||
	    (argc > 5 && parse_u64(argv[5], &tries) < 0) ||
	    (argc > 6 && parse_u64(argv[6], &threads) < 0) || l.nr == 0)
		die("usage: bench_engine DIR uring|threads|auto IN_FLIGHT direct|buffered [TRIES [THREADS]] < LIST");
	if (store_open(argv[1], NULL, &options.store, &err) < 0)
		die(err.msg);
	options.kind = strcmp(argv[2], "uring") == 0     ? LOAD_URING
		       : strcmp(argv[2], "threads") == 0 ? LOAD_THREADS
							 : LOAD_AUTO;
	options.in_flight = (unsigned)in_flight;
	options.threads = (unsigned)threads;
	options.own_files = true;
	options.direct = strcmp(argv[4], "direct") == 0;
	options.pool_len = cap * in_flight;
	options.pool = take_pool(options.pool_len);
	request = calloc(in_flight, sizeof(*request));
	for (size_t i = 0; request && i < in_flight; i++)
		request[i] = (struct load_request){ .buf = options.pool + i * cap, .cap = cap };
	if (!request || load_engine_new(&options, &e, &err) < 0)
		die(err.msg);
	for (uint64_t t = 0; t < tries; t++) {
		char words[LOAD_DETAIL];
		double cpu, us;

		shuffle(&l);
		cpu = cpu_us();
		us = now_us();
		read_all(e, &l, request, (unsigned)in_flight);
		us = now_us() - us;
		cpu = cpu_us() - cpu;
		load_engine_describe(e, words);
		printf("%s\t%.0f files/s\t%.0f MB/s\t%.2f us CPU/file\t%s\n", load_engine_name(e),
		       (double)l.nr / us * 1e6, (double)l.bytes / us, cpu / (double)l.nr, words);
	}
	load_engine_free(e);
	store_close(options.store);
	free(request);
	return 0;
}
