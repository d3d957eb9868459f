/* Any set of names: written, they come back, are found, and the catalog verifies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shoal.h"

#define NAMES_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct name {
	char *bytes;
	size_t len;
};

static struct name names[NAMES_MAX];
static size_t nr_names;

static int compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int c = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void add(const void *bytes, size_t len)
{
	if (nr_names == NAMES_MAX || len == 0 || len > SHOAL_NAME_MAX || memchr(bytes, 0, len))
		return;
	names[nr_names].bytes = malloc(len);
	if (!names[nr_names].bytes)
		abort();
	memcpy(names[nr_names].bytes, bytes, len);
	names[nr_names++].len = len;
}

/*
 * The bytes are lines. One with a '#' is counted: what follows it is how many names to make of it,
 * in which the '#' becomes a number, with leading zeros when the line starts with one.
 */
static void make_names(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	for (const uint8_t *line = data, *next; line < end; line = next + 1) {
		const uint8_t *hash;
		unsigned long count;
		int before;

		next = memchr(line, '\n', (size_t)(end - line));
		if (!next)
			next = end;
		hash = memchr(line, '#', (size_t)(next - line));
		if (!hash || next - hash < 3 || hash - line > 1000) {
			add(line, (size_t)(next - line));
			continue;
		}
		before = (int)(hash - line);
		count = 16UL * hash[1] + hash[2] % 16;
		for (unsigned long i = 0; i < count; i++) {
			char name[SHOAL_NAME_MAX];
			int n = snprintf(name, sizeof(name),
					 line[0] == '0' ? "%.*s%05lu%.*s" : "%.*s%lu%.*s", before,
					 line, i * (1 + hash[2] / 16), (int)(next - hash - 3) % 200,
					 hash + 3);

			add(name, strnlen(name, (size_t)n));
		}
	}
}

static void sort_names(void)
{
	size_t nr = 0;

	qsort(names, nr_names, sizeof(names[0]), compare);
	for (size_t i = 0; i < nr_names; i++) {
		if (nr > 0 && compare(&names[nr - 1], &names[i]) == 0)
			free(names[i].bytes);
		else
			names[nr++] = names[i];
	}
	nr_names = nr;
}

static void must(int rc, const struct shoal_err *err)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%d: %s\n", rc, err->msg);
	abort();
}

/* Of a whole, of parts, or none. */
static const char *etag_of(size_t i, char *etag)
{
	int n = snprintf(etag, SHOAL_ETAG_MAX + 1, "\"%032zx", i * i);

	snprintf(etag + n, (size_t)(SHOAL_ETAG_MAX + 1 - n), i % 3 == 1 ? "-%zu\"" : "\"", i);
	return i % 3 == 2 ? NULL : etag;
}

static void write_all(const char *path)
{
	struct shoal_writer_options options = { .root = "mem://", .sizes = true, .etags = true };
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };
	char etag[SHOAL_ETAG_MAX + 1];

	must(shoal_writer_open(path, &options, &w, &err), &err);
	for (size_t i = 0; i < nr_names; i++)
		must(shoal_writer_add_object(w, names[i].bytes, names[i].len, i * i,
					     names[i].len % 3, etag_of(i, etag), &err),
		     &err);
	must(shoal_writer_seal(w, &err), &err);
}

static void read_all(const char *path)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	char etag[SHOAL_ETAG_MAX + 1], want[SHOAL_ETAG_MAX + 1];
	const char *name;
	uint64_t id;
	size_t len;

	must(shoal_catalog_open(path, &cat, &err), &err);
	must(shoal_catalog_verify(cat, &err), &err);
	must(shoal_cursor_new(cat, 0, &cursor, &err), &err);
	for (size_t i = 0; i < nr_names; i++) {
		if (shoal_cursor_next(cursor, &name, &len) != 1 || len != names[i].len ||
		    memcmp(name, names[i].bytes, len) != 0)
			abort();
		if (i % (nr_names / 300 + 1))
			continue;
		if (shoal_catalog_find(cat, name, len, &id) != 0 || id != i)
			abort();
		if (shoal_catalog_lower_bound(cat, name, len, &id) != 0 || id != i)
			abort();
		if (shoal_catalog_size(cat, i, &id) != 0 || id != i * i)
			abort();
		if (shoal_catalog_etag(cat, i, etag) < 0 ||
		    strcmp(etag, etag_of(i, want) ? want : "") != 0)
			abort();
	}
	if (shoal_cursor_next(cursor, &name, &len) != 0)
		abort();
	shoal_cursor_free(cursor);
	shoal_catalog_close(cat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/shoal-fuzz-writer-%d.cat", (int)getpid());
	make_names(data, size);
	sort_names();
	write_all(path);
	read_all(path);
	unlink(path);
	for (size_t i = 0; i < nr_names; i++)
		free(names[i].bytes);
	nr_names = 0;
	return 0;
}
