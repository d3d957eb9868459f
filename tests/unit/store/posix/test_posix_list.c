/*
 * Goal: what a listing of a directory hands to somebody idle is taken there as it would have been
 * here, and units that come from elsewhere are believed only where they make sense.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "help.h"
#include "store/posix/range.h"
#include "store/store.h"

#define NR_FILES 3000
#define NR_NEW   40    /* in a directory that takes another's place */
#define NR_MANY  40000 /* enough for a directory to be read in several parts */

struct unit {
	uint8_t *bytes;
	size_t len;
};

struct collector {
	struct store_sink base;
	bool idle; /* whether somebody else is */
	struct test_list names;
	struct unit unit[512];
	size_t nr_units, nr_of_entries, nr_parts;
	/* What is left of the unit being listed, as a checkpoint would have it. */
	uint8_t left[STORE_UNIT_MAX];
	size_t left_len, nr_left;
	size_t taken; /* names found when that was told */
	int stop;     /* is set once it was told @stop_at times */
	size_t stop_at;
};

static void collect_left(struct store_sink *sink, const void *unit, size_t len)
{
	struct collector *c = (struct collector *)(void *)sink;

	memcpy(c->left, unit, len);
	c->left_len = len;
	c->taken = c->names.nr;
	c->stop = ++c->nr_left == c->stop_at;
}

static int collect_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
			 struct shoal_err *err)
{
	struct collector *c = (struct collector *)(void *)sink;

	(void)err;
	for (size_t i = 0; i < nr; i++)
		list_add(&c->names, entries[i].name, entries[i].len, entries[i].size, 1);
	return 0;
}

static int collect_more(struct store_sink *sink, const void *unit, size_t len,
			struct shoal_err *err)
{
	struct collector *c = (struct collector *)(void *)sink;
	struct unit *u = &c->unit[c->nr_units++];

	(void)err;
	assert_true(c->nr_units <= ARRAY_LEN(c->unit));
	assert_in_range(len, 1, STORE_UNIT_MAX);
	u->bytes = allocate(1, len);
	u->len = len;
	memcpy(u->bytes, unit, len);
	c->nr_parts += u->bytes[0] == 'H' || u->bytes[0] == 'h';
	c->nr_of_entries += u->bytes[0] == 'N' || u->bytes[0] == 'n';
	return 0;
}

static int collect_trouble(struct store_sink *sink, int rc, struct shoal_err *err)
{
	(void)sink;
	(void)err;
	return rc;
}

static unsigned collect_idle(struct store_sink *sink)
{
	return ((struct collector *)(void *)sink)->idle;
}

static struct collector collector(bool idle)
{
	return (struct collector){ .base = { .found = collect_found,
					     .add_unit = collect_more,
					     .trouble = collect_trouble,
					     .nr_idle = collect_idle },
				   .idle = idle };
}

static void release(struct collector *c)
{
	for (size_t i = 0; i < c->nr_units; i++)
		free(c->unit[i].bytes);
	list_release(&c->names);
	if (c->base.scratch)
		c->base.free_scratch(c->base.scratch);
}

/* Files in a folder, with a folder, a link and a pipe between them. */
static struct store *make_tree(void)
{
	struct store *s = NULL;
	char name[64];

	assert_int_equal(mkdir(test_path("tree"), 0755), 0);
	assert_int_equal(mkdir(test_path("tree/flat"), 0755), 0);
	for (int i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "tree/flat/%d-%s", i, i % 3 ? "a" : "a longer name");
		file_write(test_path(name), "", 0);
	}
	assert_int_equal(mkdir(test_path("tree/flat/below"), 0755), 0);
	file_write(test_path("tree/flat/below/one"), "1", 1);
	assert_int_equal(symlink("below/one", test_path("tree/flat/link")), 0);
	assert_int_equal(mkfifo(test_path("tree/flat/pipe"), 0644), 0);
	assert_int_equal(store_open(test_path("tree"), NULL, &s, NULL), 0);
	return s;
}

static void remove_tree(struct store *s)
{
	char command[512];

	store_close(s);
	snprintf(command, sizeof(command), "rm -r '%s'", test_path("tree"));
	assert_int_equal(system(command), 0); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

/* All of it, units and what they lead to; each unit by a sink of its own, as on another rank. */
static void list_all(struct store *s, const struct store_list_options *options, struct collector *c)
{
	size_t nr_found;

	assert_int_equal(store_list(s, options, NULL, 0, &c->base, NULL), 0);
	for (size_t i = 0; i < c->nr_units; i++)
		assert_int_equal(
			store_list(s, options, c->unit[i].bytes, c->unit[i].len, &c->base, NULL),
			0);
	nr_found = c->names.nr; /* sorting drops what is there twice */
	list_sort(&c->names);
	assert_int_equal(nr_found, c->names.nr);
}

static void check_same_names(const struct test_list *a, const struct test_list *b)
{
	assert_int_equal(a->nr, b->nr);
	for (size_t i = 0; i < a->nr; i++) {
		assert_string_equal(a->entry[i].name, b->entry[i].name);
		assert_int_equal(a->entry[i].size, b->entry[i].size);
	}
}

static void what_is_given_to_somebody_idle_is_found_there(void **state)
{
	struct store *s = make_tree();

	(void)state;
	for (int follow = 0; follow < 2; follow++) {
		struct store_list_options options = { .follow = follow };
		struct collector here = collector(false), there = collector(true);

		list_all(s, &options, &here);
		list_all(s, &options, &there);
		assert_int_equal(here.names.nr, NR_FILES + 1 + (size_t)follow);
		assert_int_equal(here.nr_of_entries, 0);
		assert_true(there.nr_of_entries > 1);
		check_same_names(&here.names, &there.names);
		for (int i = 0; i < STORE_NR_SKIPS; i++)
			assert_int_equal(here.base.skipped[i], there.base.skipped[i]);
		assert_int_equal(here.base.nr_directories, there.base.nr_directories);
		release(&here);
		release(&there);
	}
	remove_tree(s);
}

/* A unit of entries, from a folder that has many. */
static struct unit entries_of(struct store *s)
{
	struct store_list_options options = { 0 };
	struct collector c = collector(true);
	struct unit u = { 0 };

	assert_int_equal(store_list(s, &options, "Dflat/", 6, &c.base, NULL), 0);
	assert_int_equal(c.unit[0].bytes[0], 'N');
	u.len = c.unit[0].len;
	u.bytes = allocate(1, u.len);
	memcpy(u.bytes, c.unit[0].bytes, u.len);
	release(&c);
	return u;
}

/* 0 or the error of listing @len bytes; names that come of it are ones that a listing makes. */
static int try_unit(struct store *s, const uint8_t *bytes, size_t len, size_t *ret_names)
{
	struct store_list_options options = { 0 };
	struct collector c = collector(false);
	struct shoal_err err = { "" };
	int rc = store_list(s, &options, bytes, len, &c.base, &err);

	for (size_t i = 0; i < c.names.nr; i++) {
		const char *name = c.names.entry[i].name;

		assert_int_equal(strncmp(name, "flat/", 5), 0);
		assert_null(strchr(name + 5, '/'));
	}
	if (rc < 0)
		assert_non_null(strstr(err.msg, "damaged"));
	*ret_names = c.names.nr;
	release(&c);
	return rc;
}

static void a_unit_that_was_cut_is_refused_or_has_only_whole_names(void **state)
{
	struct store *s = make_tree();
	struct unit u = entries_of(s);
	size_t nr_good = 0, all, nr;

	(void)state;
	assert_int_equal(try_unit(s, u.bytes, u.len, &all), 0);
	for (size_t len = 1; len < 1000; len++) {
		uint8_t *cut = allocate(1, len); /* so that a look beyond it is seen */
		int rc;

		memcpy(cut, u.bytes, len);
		rc = try_unit(s, cut, len, &nr);
		assert_true(rc == 0 || rc == -EBADMSG);
		nr_good += rc == 0;
		assert_true(nr < all && (rc == 0 || nr == 0));
		free(cut);
	}
	assert_in_range(nr_good, 10, 100); /* an entry has 24 to 40 bytes */
	free(u.bytes);
	remove_tree(s);
}

static void a_unit_with_any_byte_changed_gives_no_name_of_elsewhere(void **state)
{
	static const uint8_t values[] = { 0, 1, '/', 0x7f, 0xff };
	struct store *s = make_tree();
	struct unit u = entries_of(s);
	size_t nr_refused = 0, nr_good = 0, len = 500, nr;

	(void)state;
	while (try_unit(s, u.bytes, len, &nr) < 0) /* to the end of an entry */
		len--;
	for (size_t at = 8; at < 300; at++) /* behind the letter and the folder's name */
		for (size_t i = 0; i < ARRAY_LEN(values); i++) {
			uint8_t was = u.bytes[at];
			int rc;

			u.bytes[at] = values[i];
			rc = try_unit(s, u.bytes, len, &nr);
			assert_true(rc == 0 || rc == -EBADMSG);
			nr_refused += rc < 0;
			nr_good += rc == 0;
			u.bytes[at] = was;
		}
	assert_true(nr_refused > 50 && nr_good > 50);
	free(u.bytes);
	remove_tree(s);
}

/* ---- Parts of a directory ---- */

/* A directory with very many names; whether it is one that can be cut. */
static struct store *make_many(bool *ret_cuttable)
{
	struct store *s = NULL;
	char name[80], first[512];
	int fd;

	assert_int_equal(mkdir(test_path("tree"), 0755), 0);
	assert_int_equal(mkdir(test_path("tree/flat"), 0755), 0);
	file_write(test_path("tree/flat/0"), "0", 1);
	snprintf(first, sizeof(first), "%s", test_path("tree/flat/0"));
	for (int i = 1; i < NR_MANY; i++) { /* links, which take no room and little time */
		snprintf(name, sizeof(name), "tree/flat/%d", i);
		assert_int_equal(link(first, test_path(name)), 0);
	}
	fd = open(test_path("tree/flat"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	*ret_cuttable = posix_range_can_be_cut(fd);
	if (!*ret_cuttable)
		print_message("%s is not on ext4 with an index: no directory is read in parts\n",
			      test_dir());
	close(fd);
	assert_int_equal(store_open(test_path("tree"), NULL, &s, NULL), 0);
	return s;
}

static void the_parts_of_a_directory_have_each_name_once(void **state)
{
	bool cuttable;
	struct store *s = make_many(&cuttable);

	(void)state;
	for (int sizes = 0; sizes < 2; sizes++) {
		struct store_list_options options = { .sizes = sizes };
		struct collector here = collector(false), there = collector(true);

		list_all(s, &options, &here);
		list_all(s, &options, &there);
		assert_int_equal(here.names.nr, NR_MANY);
		assert_int_equal(here.nr_parts, 0);
		assert_int_equal(there.nr_parts > 0, cuttable);
		check_same_names(&here.names, &there.names);
		assert_int_equal(here.base.nr_directories, there.base.nr_directories);
		release(&here);
		release(&there);
	}
	remove_tree(s);
}

/*
 * Interrupt the listing after each of its reads, and go on with what was left: how often that was
 * possible. @idle: others take parts of it meanwhile.
 */
static size_t list_in_bits(struct store *s, bool idle, struct collector *c)
{
	struct store_list_options options = { 0 };
	size_t nr = 0;
	int rc;

	c->base.remaining = collect_left;
	c->base.stop = &c->stop;
	c->idle = idle;
	c->left[0] = 'D';
	memcpy(c->left + 1, "flat/", 5);
	c->left_len = 6;
	c->stop_at = 1;
	do {
		uint8_t unit[SHOAL_NAME_MAX];
		size_t len = c->left_len;

		memcpy(unit, c->left, len);
		c->stop = 0;
		c->nr_left = 0;
		rc = store_list(s, &options, unit, len, &c->base, NULL);
		assert_true(rc == 0 || rc == -ECANCELED);
		if (rc < 0)
			assert_int_equal(c->names.nr,
					 c->taken); /* nothing beyond was handed over */
		nr += rc < 0;
	} while (rc < 0);
	c->base.stop = NULL;
	for (size_t i = 0; i < c->nr_units; i++)
		assert_int_equal(
			store_list(s, &options, c->unit[i].bytes, c->unit[i].len, &c->base, NULL),
			0);
	return nr;
}

static void a_directory_that_is_interrupted_goes_on_where_it_was(void **state)
{
	bool cuttable;
	struct store *s = make_many(&cuttable);

	(void)state;
	for (int idle = 0; idle < 2; idle++) {
		struct collector *c = allocate(1, sizeof(*c));
		size_t nr, found;

		*c = collector(idle);
		nr = list_in_bits(s, idle, c);
		assert_true(cuttable ? nr >= (idle ? 1 : 5) : nr == 0);
		found = c->names.nr;
		list_sort(&c->names);
		assert_int_equal(c->names.nr, NR_MANY);
		assert_int_equal(found, NR_MANY); /* and none of them twice */
		release(c);
		free(c);
	}
	remove_tree(s);
}

static uint8_t *put_bytes(uint8_t *to, const char *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

/* The unit for what lies between two positions of the folder "flat". */
static size_t put_range(uint8_t *unit, uint64_t from, uint64_t to)
{
	struct stat st;
	uint8_t *p = unit;

	*p++ = 'H';
	p = varint_put(p, 5);
	memcpy(p, "flat/", 5);
	assert_int_equal(stat(test_path("tree/flat"), &st), 0);
	p = varint_put(p + 5, st.st_dev);
	p = varint_put(p, st.st_ino);
	p = varint_put(p, from);
	p = varint_put(p, to);
	return (size_t)(p - unit);
}

static void a_size_is_not_looked_up_outside_of_the_directory(void **state)
{
	static const char *const bases[] = { "../flat/000", "../x", "..", ".", "", "/etc/passwd" };
	struct store *s = make_tree();
	uint8_t unit[64];
	size_t nr;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
		uint8_t *p = put_bytes(unit, "S\005flat/\010", 8);

		p = put_bytes(p, bases[i], strlen(bases[i]) + 1);
		assert_int_equal(try_unit(s, unit, (size_t)(p - unit), &nr), -EBADMSG);
		assert_int_equal(nr, 0);
	}
	remove_tree(s);
}

static void a_part_that_makes_no_sense_is_refused(void **state)
{
	struct store *s = make_tree();
	uint8_t unit[64];
	size_t nr, len;

	(void)state;
	assert_int_equal(try_unit(s, unit, put_range(unit, 7, 7), &nr), -EBADMSG);
	assert_int_equal(try_unit(s, unit, put_range(unit, 7, 6), &nr), -EBADMSG);
	assert_int_equal(try_unit(s, unit, put_range(unit, 7, POSIX_RANGE_END + 1), &nr), -EBADMSG);
	len = put_range(unit, 7, POSIX_RANGE_END);
	unit[len] = 0;
	assert_int_equal(try_unit(s, unit, len + 1, &nr), -EBADMSG);
	for (size_t cut = 2; cut < len; cut++)
		assert_int_equal(try_unit(s, unit, cut, &nr), -EBADMSG);
	remove_tree(s);
}

static void a_directory_that_took_anothers_place_is_listed_whole(void **state)
{
	struct store_list_options options = { 0 };
	bool cuttable;
	struct store *s = make_many(&cuttable);
	struct collector c = collector(true);

	(void)state;
	assert_int_equal(store_list(s, &options, "Dflat/", 6, &c.base, NULL), 0);
	assert_int_equal(rename(test_path("tree/flat"), test_path("tree/was")), 0);
	assert_int_equal(mkdir(test_path("tree/flat"), 0755), 0);
	for (int i = 0; i < NR_NEW; i++) {
		char name[64];

		snprintf(name, sizeof(name), "tree/flat/new-%d", i);
		file_write(test_path(name), "", 0);
	}
	for (size_t i = 0; i < c.nr_units; i++) {
		size_t before = c.names.nr;
		bool part = c.unit[i].bytes[0] == 'H';

		assert_int_equal(
			store_list(s, &options, c.unit[i].bytes, c.unit[i].len, &c.base, NULL), 0);
		if (part) {
			assert_int_equal(c.names.nr, before + NR_NEW);
			assert_memory_equal(c.names.entry[before].name, "flat/new-", 9);
		}
	}
	assert_int_equal(c.nr_parts > 0, cuttable);
	release(&c);
	remove_tree(s);
}

/* Entries at the positions @at[0..nr): the last one's is followed by @end. */
static size_t put_dents(uint8_t *dents, const uint64_t *at, size_t nr, uint64_t end)
{
	for (size_t i = 0; i < nr; i++) {
		struct posix_dent *d = (struct posix_dent *)(void *)(dents + i * 24);

		d->off = (int64_t)(i + 1 < nr ? at[i + 1] : end);
		d->reclen = 24;
	}
	return nr * 24;
}

static void a_part_ends_before_the_first_name_of_the_next(void **state)
{
	static const uint64_t at[] = { 10, 20, 20, 30, 40 };
	_Alignas(8) uint8_t dents[5 * 24];
	size_t filled = put_dents(dents, at, 5, 50);

	(void)state;
	for (uint64_t to = 9; to < 60; to++) {
		struct posix_range r = { .from = 10, .to = to, .at = 10 };
		size_t ours = posix_range_take(&r, dents, filled), want = 0;

		while (want < 5 && at[want] < to)
			want++;
		assert_int_equal(ours, want * 24);
		assert_int_equal(r.nr_bytes, ours);
	}
}

static void a_part_is_cut_only_where_much_is_left_and_never_within_a_hash(void **state)
{
	const uint64_t hash = UINT64_C(1) << 32;
	struct posix_range r = { .from = 0, .to = 1000 * hash, .at = 500 * hash + 7 };

	(void)state;
	r.nr_bytes = (512u << 10) - 1;
	assert_int_equal(posix_range_middle(&r), 0);
	r.nr_bytes = (512u << 10) + 1;
	assert_int_equal(posix_range_middle(&r), 750 * hash);
	r.nr_bytes = 1u << 30;
	r.at = r.to - hash + 1;
	assert_int_equal(posix_range_middle(&r), 0); /* the middle's hash has begun */
	r.at = r.to - 2 * hash;
	assert_int_equal(posix_range_middle(&r), r.to - hash);
	r.at = r.to;
	assert_int_equal(posix_range_middle(&r), 0);
	r.at = r.from;
	assert_int_equal(posix_range_middle(&r), 0);
}

static int put_up_with_all(struct store_sink *sink, int rc, struct shoal_err *err)
{
	(void)sink;
	(void)rc;
	(void)err;
	return 0;
}

/* Else a good catalog would be replaced by an empty one. A directory below may be gone. */
static void a_root_that_is_gone_is_no_empty_one(void **state)
{
	(void)state;
	for (int keep_going = 0; keep_going < 2; keep_going++) {
		struct collector c = collector(false);
		struct store_list_options options = { 0 };
		struct shoal_err err = { "" };
		struct store *s = NULL;

		if (keep_going)
			c.base.trouble = put_up_with_all;
		assert_int_equal(mkdir(test_path("gone"), 0755), 0);
		assert_int_equal(store_open(test_path("gone"), NULL, &s, NULL), 0);
		assert_int_equal(store_list(s, &options, NULL, 0, &c.base, NULL), 0);
		assert_int_equal(store_list(s, &options, "Dx/", 3, &c.base, NULL), 0);
		assert_int_equal(c.base.skipped[STORE_SKIP_VANISHED], 1);
		assert_int_equal(rmdir(test_path("gone")), 0);
		assert_int_equal(store_list(s, &options, NULL, 0, &c.base, &err), -ENOENT);
		assert_non_null(strstr(err.msg, "cannot read directory"));
		assert_non_null(strstr(err.msg, "gone"));
		store_close(s);
		release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_given_to_somebody_idle_is_found_there),
		cmocka_unit_test(a_unit_that_was_cut_is_refused_or_has_only_whole_names),
		cmocka_unit_test(a_unit_with_any_byte_changed_gives_no_name_of_elsewhere),
		cmocka_unit_test(the_parts_of_a_directory_have_each_name_once),
		cmocka_unit_test(a_directory_that_is_interrupted_goes_on_where_it_was),
		cmocka_unit_test(a_directory_that_took_anothers_place_is_listed_whole),
		cmocka_unit_test(a_size_is_not_looked_up_outside_of_the_directory),
		cmocka_unit_test(a_part_that_makes_no_sense_is_refused),
		cmocka_unit_test(a_root_that_is_gone_is_no_empty_one),
		cmocka_unit_test(a_part_ends_before_the_first_name_of_the_next),
		cmocka_unit_test(a_part_is_cut_only_where_much_is_left_and_never_within_a_hash),
	};

	/* On a disk: in memory no directory can be cut. */
	setenv("TMPDIR", "/var/tmp", 0); // NOLINT(concurrency-mt-unsafe)
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
