#include "help.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "catalog/catalog.h"

/* SHOAL_TEST='*pattern*' build/tests/test_x runs those tests only whose names match. */
static void __attribute__((constructor)) choose_tests(void)
{
	cmocka_set_test_filter(getenv("SHOAL_TEST"));
}

/* The state of a thread is the letter behind its name, which is in brackets. */
static bool sleeps(const char *tid)
{
	char path[300], line[512];
	const char *end = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	f = fopen(path, "r");
	if (f && fgets(line, sizeof(line), f))
		end = strrchr(line, ')');
	if (f)
		fclose(f);
	return !f || (end && end[2] == 'S'); /* one that has ended is no obstacle */
}

void wait_until_others_sleep(void)
{
	char self[16];
	bool all = false;

	snprintf(self, sizeof(self), "%d", (int)gettid());
	for (int i = 0; !all && i < 10000; i++) {
		DIR *d = opendir("/proc/self/task");
		const struct dirent *e;

		assert_non_null(d);
		usleep(1000);
		all = true;
		while ((e = readdir(d)))
			all &= e->d_name[0] == '.' || strcmp(e->d_name, self) == 0 ||
			       sleeps(e->d_name);
		closedir(d);
	}
	assert_true(all);
}

static uint64_t random_state;
static char dir[PATH_MAX];

void *allocate(uint64_t nr, size_t size)
{
	void *p = calloc(nr ? nr : 1, size ? size : 1);

	assert_non_null(p);
	return p;
}

uint64_t random_u64(void)
{
	uint64_t word = random_state++;

	return XXH3_64bits(&word, sizeof(word));
}

uint64_t random_below(uint64_t end)
{
	return random_u64() % end;
}

/* ---- Files ---- */

int test_dir_make(void **state)
{
	const char *base = getenv("TMPDIR");

	(void)state;
	if (!base)
		base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(dir, sizeof(dir), "%s/shoal-test-XXXXXX", base);
	return mkdtemp(dir) ? 0 : -1;
}

int test_dir_remove(void **state)
{
	(void)state;
	if (test_dir_count() > 0) {
		print_error("a test left %zu files in %s\n", test_dir_count(), dir);
		test_dir_empty();
		rmdir(dir);
		return -1;
	}
	return rmdir(dir);
}

const char *test_dir(void)
{
	return dir;
}

const char *test_path(const char *name)
{
	static char path[8][PATH_MAX + 256];
	static unsigned next;
	char *p = path[next++ % ARRAY_LEN(path)];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static size_t visit_dir(bool remove_them)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	size_t nr = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (remove_them)
			unlinkat(dirfd(d), e->d_name, 0);
		nr++;
	}
	closedir(d);
	return nr;
}

size_t test_dir_count(void)
{
	return visit_dir(false);
}

void test_dir_empty(void)
{
	visit_dir(true);
}

void check_words(const struct shoal_err *err, const char *words)
{
	if (!strstr(err->msg, words))
		fail_msg("'%s' does not say '%s'", err->msg, words);
}

struct rlimit files_may_not_grow(void)
{
	struct rlimit before, none = { 0 };

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	return before;
}

void files_may_grow(const struct rlimit *before)
{
	assert_int_equal(setrlimit(RLIMIT_FSIZE, before), 0);
}

uint8_t *file_read(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *bytes;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	bytes = allocate((uint64_t)st.st_size, 1);
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	*ret_len = (size_t)st.st_size;
	return bytes;
}

void file_write(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static struct sigaction guard;

void sigbus_guard_init(void)
{
	struct map map = MAP_CLOSED;

	if (map_open("/proc/self/exe", &map, NULL) < 0)
		abort();
	map_close(&map);
	sigaction(SIGBUS, NULL, &guard);
}

void sigbus_guard(void)
{
	sigaction(SIGBUS, &guard, NULL);
}

/* ---- Lists of names ---- */

void list_add(struct test_list *l, const void *name, size_t len, uint64_t size, uint64_t samples)
{
	if (l->nr == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->entry = realloc(l->entry, l->cap * sizeof(*l->entry));
		assert_non_null(l->entry);
	}
	l->entry[l->nr] = (struct test_entry){ allocate(len + 1, 1), len, size, samples };
	memcpy(l->entry[l->nr].name, name, len);
	l->nr++;
}

void list_addf(struct test_list *l, const char *fmt, ...)
{
	char name[SHOAL_NAME_MAX + 1];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	assert_in_range(n, 1, SHOAL_NAME_MAX);
	list_add(l, name, (size_t)n, random_below(1 << 20), 1 + random_below(4));
}

static int compare_entries(const void *a, const void *b)
{
	const struct test_entry *x = a, *y = b;
	int c = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

void list_sort(struct test_list *l)
{
	size_t nr = 0;

	if (l->nr == 0)
		return;
	qsort(l->entry, l->nr, sizeof(*l->entry), compare_entries);
	for (size_t i = 0; i < l->nr; i++) {
		if (nr > 0 && compare_entries(&l->entry[nr - 1], &l->entry[i]) == 0)
			free(l->entry[i].name);
		else
			l->entry[nr++] = l->entry[i];
	}
	l->nr = nr;
}

void list_release(struct test_list *l)
{
	for (size_t i = 0; i < l->nr; i++)
		free(l->entry[i].name);
	free(l->entry);
	*l = (struct test_list){ 0 };
}

void list_add_irregular(struct test_list *l, const char *folder, size_t nr)
{
	static const char *const word[] = { "autumn", "bridge",  "candle", "dragon", "ember",
					    "forest", "garden",  "harbor", "island", "jungle",
					    "kettle", "lantern", "meadow", "nickel", "orchard" };

	for (size_t i = 0; i < nr; i++) {
		const char *a = word[random_below(ARRAY_LEN(word))];
		const char *b = word[random_below(ARRAY_LEN(word))];
		unsigned long n = (unsigned long)random_below(100000);

		switch (random_below(4)) {
		case 0:
			list_addf(l, "%s/%s of the %s-%lu.jpeg", folder, a, b, n);
			break;
		case 1:
			list_addf(l, "%s/%s_%s (%lu).png", folder, a, b, n);
			break;
		case 2:
			list_addf(l, "%s/the %s, %lu %ss.txt", folder, a, n, b);
			break;
		default:
			list_addf(l, "%s/%lx-%s-%lu", folder, n * 7919, b, n % 13);
			break;
		}
	}
}

/* ---- Catalogs ---- */

void catalog_write(const char *path, const struct test_list *l, size_t from, size_t end, bool sizes,
		   uint64_t samples_per_file)
{
	struct shoal_writer_options options = { .root = TEST_ROOT,
						.sizes = sizes,
						.samples_per_file = samples_per_file };
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };

	if (shoal_writer_open(path, &options, &w, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t i = from; i < end; i++) {
		const struct test_entry *e = &l->entry[i];

		if (shoal_writer_add(w, e->name, e->len, e->size, e->samples, &err) < 0) {
			shoal_writer_abort(w);
			fail_msg("%s", err.msg);
		}
	}
	if (shoal_writer_seal(w, &err) < 0)
		fail_msg("%s", err.msg);
}

struct shoal_catalog *catalog_open(const char *path)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };

	if (shoal_catalog_open(path, &cat, &err) < 0)
		fail_msg("%s: %s", path, err.msg);
	return cat;
}

struct shoal_catalog *catalog_of(const struct test_list *l, bool sizes, uint64_t samples_per_file)
{
	const char *path = test_path("whole.cat");
	struct shoal_catalog *cat;

	catalog_write(path, l, 0, l->nr, sizes, samples_per_file);
	cat = catalog_open(path);
	unlink(path);
	return cat;
}

void catalog_digest(const struct shoal_catalog *cat, char ret_digest[33])
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	memcpy(ret_digest, info.digest, sizeof(info.digest));
}

uint64_t catalog_count_kind(const struct shoal_catalog *cat, enum cat_kind kind)
{
	uint64_t nr = 0;

	for (uint64_t k = 0; k < cat->view.nr_segments; k++) {
		struct cat_segment seg;

		assert_int_equal(cat_segment_load(&cat->view, cat->dicts, k, &seg), 0);
		nr += seg.kind == kind;
	}
	return nr;
}

static void check_entry(const struct shoal_catalog *cat, const struct test_entry *e, uint64_t id,
			uint64_t first_sample)
{
	char name[SHOAL_NAME_MAX + 1];
	struct shoal_catalog_info info;
	uint64_t got = UINT64_MAX, first, count, file, index, size;
	uint64_t want_samples;
	int n = shoal_catalog_name(cat, id, name);

	if (n != (int)e->len || memcmp(name, e->name, e->len) != 0)
		fail_msg("id %" PRIu64 ": '%.*s', not '%s' (%d)", id, n < 0 ? 0 : n, name, e->name,
			 n);
	assert_int_equal(name[n], 0);
	if (shoal_catalog_find(cat, e->name, e->len, &got) != 0 || got != id)
		fail_msg("'%s' is found as %" PRIu64 ", not %" PRIu64, e->name, got, id);
	assert_int_equal(shoal_catalog_lower_bound(cat, e->name, e->len, &got), 0);
	assert_int_equal(got, id);
	shoal_catalog_info(cat, &info);
	assert_int_equal(shoal_catalog_size(cat, id, &size), 0);
	assert_int_equal(size, info.nr_bytes == SHOAL_SIZE_UNKNOWN ? SHOAL_SIZE_UNKNOWN : e->size);
	want_samples = info.samples_per_file ? info.samples_per_file : e->samples;
	if (info.samples_per_file)
		first_sample = id * info.samples_per_file;
	assert_int_equal(shoal_catalog_samples(cat, id, &first, &count), 0);
	assert_int_equal(first, first_sample);
	assert_int_equal(count, want_samples);
	for (uint64_t k = 0; k < 2 && count > 0; k++) {
		uint64_t at = k ? count - 1 : 0;

		assert_int_equal(shoal_catalog_locate(cat, first + at, &file, &index), 0);
		assert_int_equal(file, id);
		assert_int_equal(index, at);
	}
}

/* Told by the header, and found by looking where an older catalog does not tell. */
static void check_largest(const struct shoal_catalog *cat, const struct test_list *l)
{
	struct shoal_catalog older = *cat;
	uint64_t want = 0, told = 1, found = 1;

	for (size_t i = 0; i < l->nr; i++)
		want = u64_max(want, l->entry[i].size);
	if (cat->view.nr_bytes == SHOAL_SIZE_UNKNOWN)
		want = SHOAL_SIZE_UNKNOWN;
	older.view.largest = SHOAL_SIZE_UNKNOWN;
	assert_int_equal(cat->view.largest, want);
	assert_int_equal(shoal_catalog_largest(cat, &told), 0);
	assert_int_equal(told, want);
	assert_int_equal(shoal_catalog_largest(&older, &found), 0);
	assert_int_equal(found, want);
}

void catalog_check(const struct shoal_catalog *cat, const struct test_list *l)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_err err = { "" };
	uint64_t step = l->nr / 2000 + 1, sum = 0, x, y;
	const char *name;
	size_t len;

	assert_int_equal(cat->view.nr_files, l->nr);
	assert_int_equal(shoal_cursor_new(cat, 0, &cursor, &err), 0);
	for (size_t i = 0; i < l->nr; i++) {
		const struct test_entry *e = &l->entry[i];

		assert_int_equal(shoal_cursor_next(cursor, &name, &len), 1);
		if (len != e->len || memcmp(name, e->name, len) != 0)
			fail_msg("name %zu is '%s', not '%s'", i, name, e->name);
		assert_int_equal(name[len], 0);
		if (i % step == 0 || i + 1 == l->nr)
			check_entry(cat, e, i, sum);
		sum += e->samples;
	}
	assert_int_equal(shoal_cursor_next(cursor, &name, &len), 0);
	assert_int_equal(shoal_cursor_next(cursor, &name, &len), 0);
	shoal_cursor_free(cursor);
	assert_int_equal(shoal_catalog_name(cat, l->nr, err.msg), -ERANGE);
	assert_int_equal(shoal_catalog_size(cat, l->nr, &x), -ERANGE);
	assert_int_equal(shoal_catalog_samples(cat, l->nr, &x, &y), 0);
	assert_int_equal(x, cat->view.nr_samples);
	assert_int_equal(y, 0);
	assert_int_equal(shoal_catalog_samples(cat, l->nr + 1, &x, &y), -ERANGE);
	assert_int_equal(shoal_catalog_locate(cat, cat->view.nr_samples, &x, &y), -ERANGE);
	check_largest(cat, l);
	if (shoal_catalog_verify(cat, &err) != 0)
		fail_msg("verify: %s", err.msg);
}

/* ---- Images ---- */

size_t image_section(const uint8_t *image, enum cat_section_id id, uint64_t *ret_len)
{
	const struct cat_header *h = (const struct cat_header *)image;
	const struct cat_table_entry *e = (const struct cat_table_entry *)(h + 1);

	for (uint32_t i = 0; i < le32_get(h->nr_sections); i++)
		if (memcmp(e[i].id, cat_section_names[id], 4) == 0) {
			if (ret_len)
				*ret_len = le64_get(e[i].len);
			return (size_t)le64_get(e[i].off);
		}
	fail_msg("no section %s", cat_section_names[id]);
	return 0;
}

void image_repair(uint8_t *image)
{
	struct cat_header *h = (struct cat_header *)image;
	const struct cat_table_entry *e = (const struct cat_table_entry *)(h + 1);
	uint32_t nr = le32_get(h->nr_sections);
	uint8_t *sums = image + le64_get(h->sums_off), *sum = sums;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t off = le64_get(e[i].off), len = le64_get(e[i].len);

		for (uint64_t at = 0; at < len; at += CAT_PAGE, sum += 8)
			le64_store(sum, XXH3_64bits(image + off + at, u64_min(CAT_PAGE, len - at)));
	}
	h->sums_checksum = le64_of(XXH3_64bits(sums, (size_t)(sum - sums)));
	h->table_checksum = le64_of(XXH3_64bits(e, nr * sizeof(*e)));
	h->header_checksum = le64_of(XXH3_64bits(h, offsetof(struct cat_header, header_checksum)));
}

int image_open(const uint8_t *image, size_t len, struct shoal_catalog **ret_cat,
	       struct shoal_err *err)
{
	const char *path = test_path("image.cat");
	int rc;

	file_write(path, image, len);
	rc = shoal_catalog_open(path, ret_cat, err);
	unlink(path);
	return rc;
}
