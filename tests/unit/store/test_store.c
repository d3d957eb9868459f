/*
 * Goal: every store does what store.h says: what is written comes back under any name, what fails
 * leaves nothing behind and says so in words, and all of it from many threads at once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>
#include <zstd.h>

#include "base/publish.h"
#include "base/queue.h"
#include "faults.h"
#include "help.h"
#include "stack.h"
#include "store/posix/posix.h"

static struct fault failing_call; /* on purpose */

/* ---- A store in a fresh directory for each test, and nothing left open after it ---- */

static struct store *tree;
static size_t open_before;

static size_t count_entries(int fd)
{
	DIR *d = fdopendir(fd);
	size_t nr = 0;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr - 2;
}

static size_t count_open(void)
{
	return count_entries(open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
}

/* The number of things in a directory of the tree, hidden ones and all. */
static size_t count_in(const char *dir)
{
	return count_entries(
		openat(((struct store_posix *)tree)->root_fd, dir, O_RDONLY | O_DIRECTORY));
}

/* Remove all in a directory, which may be deeper than a path is long. */
static void remove_all(int fd)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, e->d_name, 0) == 0)
			continue;
		remove_all(openat(fd, e->d_name, O_RDONLY | O_DIRECTORY));
		unlinkat(fd, e->d_name, AT_REMOVEDIR);
	}
	closedir(d);
}

static int setup(void **state)
{
	(void)state;
	open_before = count_open();
	mkdir(test_path("root"), 0755);
	return store_open(test_path("root"), NULL, &tree, NULL);
}

static int teardown(void **state)
{
	(void)state;
	tree = store_close(tree);
	remove_all(open(test_dir(), O_RDONLY | O_DIRECTORY));
	return count_open() == open_before ? 0 : -1;
}

static struct store *open_store(const char *uri)
{
	struct shoal_err err = { "" };
	struct store *s = NULL;

	if (store_open(uri, NULL, &s, &err) < 0)
		fail_msg("'%s': %s", uri, err.msg);
	return s;
}

static struct store_writer *create(struct store *s, const char *name)
{
	struct shoal_err err = { "" };
	struct store_writer *w = NULL;

	if (store_create(s, name, &w, &err) < 0)
		fail_msg("'%s': %s", name, err.msg);
	return w;
}

static void put(struct store *s, const char *name, const void *data, size_t len)
{
	struct store_writer *w = create(s, name);

	assert_int_equal(store_write(w, data, len, NULL), 0);
	assert_int_equal(store_commit(w, NULL), 0);
}

static void check_bytes(struct store *s, const char *name, const void *data, size_t len)
{
	uint8_t *buf = allocate(len + 1, 1);
	struct shoal_err err = { "" };
	struct store_stat st;
	int64_t n = store_read(s, name, 0, buf, len + 1, &err);

	if (n < 0)
		fail_msg("'%s': %s", name, err.msg);
	assert_int_equal(n, len);
	assert_memory_equal(buf, data, len);
	assert_int_equal(store_stat(s, name, &st, NULL), 0);
	assert_int_equal(st.size, len);
	assert_false(st.is_dir);
	free(buf);
}

#define check_fails(call, rc, words)            \
	do {                                    \
		struct shoal_err err = { "" };  \
		assert_int_equal((call), (rc)); \
		check_words(&err, (words));     \
	} while (0)

/* ---- Opening ---- */

static void a_directory_is_opened_by_its_uri_or_path_and_has_one_name(void **state)
{
	static const struct {
		const char *given; /* %s is the test's folder */
		const char *uri;   /* after that folder's; NULL: the root of all */
	} row[] = {
		{ "%s/root", "/root" },
		{ "%s/root/", "/root" },
		{ "%s/root///", "/root" },
		{ "file://%s/root", "/root" },
		{ "file://%s/root/", "/root" },
		{ "root", "/root" },
		{ "./root", "/root" },
		{ "././root/", "/root" },
		{ ".//root", "/root" },
		{ ".", "" },
		{ "./", "" },
		{ "./.", "" },
		{ "%s", "" },
		{ "%s/root/a%20b", "/root/a%20b" },
		{ "file://%s/root/a%20b", "/root/a%20b" },
		{ "root/.", "/root" },
		{ "root/././/", "/root" },
		{ "%s/root/.", "/root" },
		{ "file://%s/root/./", "/root" },
		{ "dot.", "/dot." },
		{ "/", NULL },
		{ "/.", NULL },
		{ "///", NULL },
		{ "file:///", NULL },
	};
	char *cwd = getcwd(NULL, 0);

	(void)state;
	assert_int_equal(chdir(test_dir()), 0);
	assert_int_equal(mkdir("root/a%20b", 0755), 0);
	assert_int_equal(mkdir("dot.", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char given[PATH_MAX], want[PATH_MAX];
		struct store *s;
		const char *at = strstr(row[i].given, "%s");

		snprintf(given, sizeof(given), "%.*s%s%s", at ? (int)(at - row[i].given) : 0,
			 row[i].given, at ? test_dir() : "", at ? at + 2 : row[i].given);
		snprintf(want, sizeof(want), "file://%s%s", row[i].uri ? test_dir() : "/",
			 row[i].uri ? row[i].uri : "");
		s = open_store(given);
		assert_string_equal(s->uri, want);
		assert_string_equal(s->ops->kind, "posix");
		assert_null(store_close(s));
	}
	assert_int_equal(rmdir("dot."), 0);
	assert_int_equal(chdir(cwd), 0);
	free(cwd);
	assert_null(store_close(NULL));
}

static void what_is_no_store_is_named_in_words(void **state)
{
	static const struct {
		const char *uri;
		int rc;
		const char *words;
	} row[] = {
		{ "", -EINVAL, "empty" },
		{ "gs://bucket/data", -ENOTSUP, "'gs://' is not a kind of store: use file://" },
		{ "http+x://h", -ENOTSUP, "'http+x://'" },
		{ "s3:///data", -EINVAL, "has no bucket" },
		{ "file://host/data", -EINVAL, "three slashes" },
		{ "file:data", -EINVAL, "three slashes" },
		{ "file:/data", -EINVAL, "three slashes" },
		{ "/no/such/place", -ENOENT, "there is no directory '/no/such/place'" },
		{ "file:///no/such/place", -ENOENT, "there is no directory '/no/such/place'" },
		{ "no such place", -ENOENT, "there is no directory" },
		{ "1://x", -ENOENT, "there is no directory '1://x'" }, /* a path: no scheme */
		{ "s3:bucket", -ENOENT, "there is no directory" },
		{ "/proc/self/comm", -ENOTDIR, "'/proc/self/comm' is a file, not a directory" },
		{ "/proc/self/comm/x", -ENOTDIR, "cannot open the directory" },
		{ "null:size", -EINVAL, "no option 'size'" },
		{ "null:sizes=3", -EINVAL, "no option 'sizes=3'" },
		{ "null:size=", -EINVAL, "not ''" },
		{ "null:size=-1", -EINVAL, "not '-1'" },
		{ "null:size=9223372036854775808", -EINVAL, "size must be a number of bytes" },
		{ "null:size=3,", -EINVAL, "no option ''" },
		{ "null:,size=3", -EINVAL, "no option ''" },
		{ "null://x", -EINVAL, "no option '//x'" },
		{ "null:delay_us=", -EINVAL, "delay_us must be 0 to 3600000000" },
		{ "null:delay_us=3600000001", -EINVAL, "not '3600000001'" },
		{ "null:delay_us=1ms", -EINVAL, "not '1ms'" },
	};
	char path[PATH_MAX + 10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct store *s = NULL;

		check_fails(store_open(row[i].uri, NULL, &s, &err), row[i].rc, row[i].words);
		assert_int_equal(store_open(row[i].uri, NULL, &s, NULL), row[i].rc);
		assert_null(s);
	}
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	check_fails(store_open(path, NULL, &tree, &err), -ENAMETOOLONG, "File name too long");
}

/* ---- Names, and what a store lacks ---- */

static void names_are_checked_before_a_store_sees_them(void **state)
{
	static const struct {
		const char *name;
		int rc;
		const char *words;
	} row[] = {
		{ "", -EINVAL, "the name is empty" },
		{ "/", -EINVAL, "starts with a slash" },
		{ "/a", -EINVAL, "'/a' starts with a slash" },
		{ "..", -EINVAL, "contains '..'" },
		{ "../a", -EINVAL, "contains '..'" },
		{ "a/..", -EINVAL, "'a/..' contains '..'" },
		{ "a/../b", -EINVAL, "contains '..'" },
		{ "a//../", -EINVAL, "contains '..'" },
		{ "a", 0, "" },
		{ "...", 0, "" },
		{ "..a", 0, "" },
		{ "a..", 0, "" },
		{ "a/..b/c../.d", 0, "" },
		{ "a//b", 0, "" },
	};
	struct store *s = open_store("null:size=1");
	char name[SHOAL_NAME_MAX + 2], byte;
	struct store_writer *w;
	struct store_stat st;

	(void)state;
	for (size_t i = 0; i <= ARRAY_LEN(row); i++) {
		bool last = i == ARRAY_LEN(row);
		const char *given = last ? name : row[i].name;
		const char *words = last ? "more than 4096 bytes" : row[i].words;
		int rc = last ? -ENAMETOOLONG : row[i].rc;

		memset(name, 'n', sizeof(name));
		name[SHOAL_NAME_MAX + 1] = '\0';
		w = NULL;
		check_fails(store_stat(s, given, &st, &err), rc, words);
		check_fails(store_read(s, given, 0, &byte, 1, &err), rc == 0 ? 1 : rc, words);
		check_fails(store_create(s, given, &w, &err), rc, words);
		store_abort(w);
		check_fails(store_remove(s, given, &err), rc, words);
	}
	name[SHOAL_NAME_MAX] = '\0';
	assert_int_equal(store_stat(s, name, &st, NULL), 0);
	store_close(s);
}

/* Counts what reaches it. */
struct bare {
	struct store base;
	int lists;
};

static int bare_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	(void)options;
	(void)err;
	((struct bare *)s)->lists++;
	return sink->add_unit(sink, unit, len, err);
}

static void what_a_store_lacks_is_said(void **state)
{
	static const struct store_ops none = { .kind = "bare" };
	struct bare bare = { .base = { .ops = &none } };
	struct store_writer writer = { .store = &bare.base };
	struct store_list_options options = { 0 };
	struct store_sink sink = { 0 };
	struct store *s = &bare.base;
	struct store_writer *w = NULL;
	struct store_stat st;
	char byte;

	(void)state;
	check_fails(store_stat(s, "a", &st, &err), -ENOTSUP, "a bare store does not support sizes");
	check_fails(store_read(s, "a", 0, &byte, 1, &err), -ENOTSUP, "does not support reading");
	check_fails(store_create(s, "a", &w, &err), -ENOTSUP, "does not support writing");
	check_fails(store_commit(&writer, &err), -ENOTSUP, "does not support writing");
	check_fails(store_write(&writer, "a", 1, &err), -ENOTSUP, "does not support writing");
	check_fails(store_remove(s, "a", &err), -ENOTSUP, "does not support removal");
	check_fails(store_list(s, &options, NULL, 0, &sink, &err), -ENOTSUP,
		    "does not support listing");
	assert_int_equal(store_stat(s, "a", &st, NULL), -ENOTSUP);
	store_abort(&writer);
	store_abort(NULL);
	store_close(s);
	assert_null(w);
}

/* ---- Reading and writing files ---- */

static void what_is_written_comes_back_in_any_pieces(void **state)
{
	static const size_t sizes[] = { 0, 1, 7, 4095, 4096, 4097, 1000000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], done = 0;
		uint8_t *data = allocate(len, 1), *buf = allocate(len, 1);
		struct store_writer *w = create(tree, "a/b/c");

		for (size_t at = 0; at < len; at++)
			data[at] = (uint8_t)random_u64();
		while (done < len) {
			size_t n = (size_t)u64_min(len - done, 1 + random_below(len));

			assert_int_equal(store_write(w, data + done, n, NULL), 0);
			assert_int_equal(store_write(w, NULL, 0, NULL), 0);
			done += n;
		}
		assert_int_equal(store_commit(w, NULL), 0);
		check_bytes(tree, "a/b/c", data, len);
		check_bytes(tree, "a//b/./c", data, len);
		for (int piece = 0; piece < 20; piece++) {
			uint64_t off = random_below(len + 2), n = random_below(len + 1);
			uint64_t want = off < len ? u64_min(n, len - off) : 0;

			assert_int_equal(store_read(tree, "a/b/c", off, buf, n, NULL), want);
			assert_memory_equal(buf, data + (want ? off : 0), want);
		}
		assert_int_equal(store_read(tree, "a/b/c", len, buf, len, NULL), 0);
		assert_int_equal(store_read(tree, "a/b/c", INT64_MAX, buf, len, NULL), 0);
		assert_int_equal(store_read(tree, "a/b/c", UINT64_MAX, buf, len, NULL), 0);
		free(data);
		free(buf);
	}
	assert_int_equal(count_in("a/b"), 1);
}

static void reads_go_on_after_signals_and_short_answers(void **state)
{
	char buf[100];

	(void)state;
	put(tree, "a", "0123456789", 10);
	failing_call.limit = 3;
	for (int spoilt = 1; spoilt < 12; spoilt++) {
		memset(buf, 0, sizeof(buf));
		fault_arm(&failing_call, FAULT_PREAD, 1, spoilt, EINTR);
		assert_int_equal(store_read(tree, "a", 2, buf, 8, NULL), 8);
		assert_string_equal(buf, "23456789");
	}
	fault_disarm(&failing_call);
	failing_call.limit = 0;
}

/* Fill in @len bytes of name in parts of at most 255 bytes. */
static void long_name(char *name, size_t len)
{
	memset(name, 'n', len);
	for (size_t at = 255; at + 1 < len; at += 256)
		name[at] = '/';
	if (len % 256 == 0 && len > 256) /* the last part would have a slash as its last byte */
		name[len - 255] = '/';
	name[len] = '\0';
}

static void any_bytes_are_a_name(void **state)
{
	static const char *const row[] = {
		"new\nline/\n",
		"\xff\xfe\x80/\xc3\x28",
		" ",
		"-rf",
		"\\\"'",
		"a/.hidden",
		"tab\t",
		"%s%n%%",
		"x.partial",
		"two//slashes///more",
		"\xe2\x98\x83/\xf0\x9f\x90\x9f",
	};
	static const size_t lengths[] = { 236, 237, 238, 254, 255, 3000, 4094, 4095, 4096 };
	char name[SHOAL_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row) + ARRAY_LEN(lengths); i++) {
		const char *given = i < ARRAY_LEN(row) ? row[i] : name;
		struct store_stat st;

		if (given == name)
			long_name(name, lengths[i - ARRAY_LEN(row)]);
		put(tree, given, given, strlen(given));
		check_bytes(tree, given, given, strlen(given));
		assert_int_equal(store_remove(tree, given, NULL), 0);
		check_fails(store_stat(tree, given, &st, &err), -ENOENT, "does not exist");
	}
}

static void a_part_of_more_than_255_bytes_is_refused_at_once(void **state)
{
	struct store_writer *w = NULL;
	char name[257 + 2];
	char byte;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	check_fails(store_create(tree, name, &w, &err), -ENAMETOOLONG, "cannot write 'nnn");
	check_fails(store_read(tree, name, 0, &byte, 1, &err), -ENAMETOOLONG, "cannot read");
	name[256] = '/';
	name[257] = 'n';
	name[258] = '\0';
	check_fails(store_create(tree, name, &w, &err), -ENAMETOOLONG, "the directory of 'nnn");
	assert_null(w);
	assert_int_equal(count_in("."), 0);
}

static void nothing_has_the_name_before_commit_and_nothing_is_left_after_abort(void **state)
{
	struct store_writer *w = create(tree, "d/a");
	struct store_stat st;

	(void)state;
	assert_int_equal(store_write(w, "new", 3, NULL), 0);
	assert_int_equal(store_stat(tree, "d/a", &st, NULL), -ENOENT);
	assert_int_equal(count_in("d"), 1);
	store_abort(w);
	assert_int_equal(count_in("d"), 0);

	put(tree, "d/a", "old", 3);
	w = create(tree, "d/a");
	assert_int_equal(store_write(w, "newer", 5, NULL), 0);
	check_bytes(tree, "d/a", "old", 3);
	store_abort(w);
	check_bytes(tree, "d/a", "old", 3);
	w = create(tree, "d/a");
	store_abort(create(tree, "d/a")); /* two writers of one name do not meet */
	assert_int_equal(store_write(w, "newer", 5, NULL), 0);
	assert_int_equal(store_commit(w, NULL), 0);
	check_bytes(tree, "d/a", "newer", 5);
	assert_int_equal(count_in("d"), 1);
}

static void a_write_that_fails_ends_the_file_and_leaves_nothing(void **state)
{
	struct rlimit before, small = { 0 };
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	char *data = allocate(20000, 1);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = 10000, .rlim_max = before.rlim_max };
	for (int way = 0; way < 3; way++) {
		struct store_writer *w = create(tree, "a");

		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		assert_int_equal(store_write(w, data, 10000, NULL), 0);
		check_fails(store_write(w, data, 1, &err), -EFBIG, "cannot write 'a': File too");
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		check_fails(store_write(w, data, 1, &err), -EFBIG, "an earlier write failed");
		if (way == 0)
			store_abort(w);
		else if (way == 1)
			check_fails(store_commit(w, &err), -EFBIG, "incomplete");
		else
			assert_int_equal(store_commit(w, NULL), -EFBIG);
		assert_int_equal(count_in("."), 0);
	}
	signal(SIGXFSZ, handler);
	free(data);
}

static void a_commit_that_fails_leaves_nothing_and_keeps_what_was_there(void **state)
{
	struct store_writer *w;

	(void)state;
	put(tree, "a", "old", 3);
	w = create(tree, "a");
	assert_int_equal(store_write(w, "new", 3, NULL), 0);
	fault_arm(&failing_call, FAULT_CLOSE, 1, FAULT_ONCE, EDQUOT);
	check_fails(store_commit(w, &err), -EDQUOT, "cannot write 'a': Disk quota");
	fault_disarm(&failing_call);
	check_bytes(tree, "a", "old", 3);
	put(tree, "dir/x", "", 0);
	check_fails(store_commit(create(tree, "dir"), &err), -EISDIR,
		    "cannot rename to 'dir': Is a directory");
	w = create(tree, "d/x");
	remove_all(openat(((struct store_posix *)tree)->root_fd, "d", O_RDONLY | O_DIRECTORY));
	check_fails(store_commit(w, &err), -ENOENT, "cannot rename to 'd/x'");
	assert_int_equal(count_in("."), 3);
}

static void a_partial_name_that_is_taken_is_left_alone(void **state)
{
	struct store_posix *p = (struct store_posix *)tree;
	struct store_writer *w = NULL;
	char name[64];

	(void)state;
	p->salt = 0xfffffff0;
	put(tree, ".x.fffffff1.partial", "theirs", 6);
	put(tree, ".x.fffffff2.partial", "theirs", 6);
	p->uses = 1;
	put(tree, "x", "mine", 4);
	check_bytes(tree, "x", "mine", 4);
	check_bytes(tree, ".x.fffffff1.partial", "theirs", 6);
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), ".x.%08x.partial", 5000 + i);
		put(tree, name, "theirs", 6);
	}
	p->salt = 5000;
	p->uses = 0;
	check_fails(store_create(tree, "x", &w, &err), -EEXIST, "cannot write 'x'");
	assert_null(w);
	assert_int_equal(count_in("."), 103);
}

static void a_name_that_no_file_can_have_is_refused(void **state)
{
	struct store_writer *w = NULL;

	(void)state;
	put(tree, "file", "", 0);
	assert_int_equal(symlink("nowhere", test_path("root/link")), 0);
	check_fails(store_create(tree, "d/", &w, &err), -EISDIR, "'d/' names a directory");
	check_fails(store_create(tree, "d/.", &w, &err), -EISDIR, "names a directory");
	check_fails(store_create(tree, ".", &w, &err), -EISDIR, "names a directory");
	check_fails(store_create(tree, "file/a", &w, &err), -ENOTDIR,
		    "cannot create the directory of 'file/a'");
	check_fails(store_create(tree, "file/a/b", &w, &err), -ENOTDIR, "Not a directory");
	check_fails(store_create(tree, "link/a", &w, &err), -ENOENT, "the directory of 'link/a'");
	assert_null(w);
	assert_int_equal(count_in("."), 2);
}

static void what_is_no_file_is_not_read(void **state)
{
	struct store_stat st = { 0 };
	char byte, name[SHOAL_NAME_MAX + 1];

	(void)state;
	put(tree, "dir/a", "1", 1);
	assert_int_equal(mkfifo(test_path("root/pipe"), 0666), 0);
	assert_int_equal(mknod(test_path("root/sock"), S_IFSOCK | 0666, 0), 0);
	check_fails(store_read(tree, "dir", 0, &byte, 1, &err), -EISDIR, "'dir' is a directory");
	check_fails(store_read(tree, "dir", 0, &byte, 0, &err), -EISDIR, "is a directory");
	check_fails(store_read(tree, "pipe", 0, &byte, 1, &err), -ENOTSUP, "not a regular file");
	check_fails(store_read(tree, "sock", 0, &byte, 1, &err), -ENOTSUP, "not a regular file");
	check_fails(store_stat(tree, "pipe", &st, &err), -ENOTSUP, "not a regular file");
	check_fails(store_read(tree, "no", 0, &byte, 1, &err), -ENOENT, "'no' does not exist");
	check_fails(store_read(tree, "dir/a/b", 0, &byte, 1, &err), -ENOTDIR, "cannot read 'dir/a");
	check_fails(store_remove(tree, "no", &err), -ENOENT, "'no' does not exist");
	check_fails(store_remove(tree, "dir", &err), -EISDIR, "'dir' is a directory");
	long_name(name, SHOAL_NAME_MAX);
	check_fails(store_read(tree, name, 0, &byte, 1, &err), -ENOENT, "does not exist");
	check_fails(store_stat(tree, name, &st, &err), -ENOENT, "does not exist");
	check_fails(store_remove(tree, name, &err), -ENOENT, "does not exist");
	assert_int_equal(store_stat(tree, "dir", &st, NULL), 0);
	assert_true(st.is_dir);
	assert_int_equal(symlink("dir/a", test_path("root/link")), 0);
	check_bytes(tree, "link", "1", 1);
}

static void what_may_not_be_touched_says_so(void **state)
{
	struct store_writer *w = NULL;
	struct store *s = NULL;
	char byte;
	bool root = geteuid() == 0;

	(void)state;
	put(tree, "secret", "1", 1);
	put(tree, "dir/a", "1", 1);
	assert_int_equal(chmod(test_dir(), 0755), 0);
	assert_int_equal(chmod(test_path("root/secret"), 0), 0);
	assert_int_equal(chmod(test_path("root/dir"), 0111), 0);
	if (root && seteuid(65534) < 0)
		skip();
	check_fails(store_read(tree, "secret", 0, &byte, 1, &err), -EACCES,
		    "cannot read 'secret': Permission denied");
	check_fails(store_create(tree, "dir/b", &w, &err), -EACCES, "cannot write 'dir/b'");
	check_fails(store_create(tree, "dir/e/b", &w, &err), -EACCES,
		    "cannot create the directory");
	check_fails(store_remove(tree, "dir/a", &err), -EACCES, "cannot remove 'dir/a'");
	check_fails(store_open(test_path("root/dir"), NULL, &s, &err), -EACCES,
		    "no permission to read the directory");
	check_bytes(tree, "dir/a", "1", 1); /* to search is enough for that */
	if (root)
		assert_int_equal(seteuid(0), 0);
	chmod(test_path("root/dir"), 0755);
}

static void a_store_stays_where_it_was_opened(void **state)
{
	struct store *s;
	char *cwd = getcwd(NULL, 0);

	(void)state;
	assert_int_equal(chdir(test_dir()), 0);
	s = open_store("root");
	put(s, "a/b", "1", 1);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rename(test_path("root"), test_path("moved")), 0);
	check_bytes(s, "a/b", "1", 1);
	put(s, "c/d", "2", 1);
	check_bytes(tree, "c/d", "2", 1);
	store_close(s);
	assert_int_equal(chdir(cwd), 0);
	free(cwd);
}

/* ---- Threads ---- */

#define NR_THREADS 8

struct worker {
	pthread_t thread;
	struct store *store;
	unsigned number;
	uint64_t failed, done;
};

static void run_all(struct store *s, void *(*run)(void *), struct worker *w)
{
	for (unsigned i = 0; i < NR_THREADS; i++) {
		w[i] = (struct worker){ .store = s, .number = i };
		assert_int_equal(thread_start(&w[i].thread, run, &w[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(w[i].thread, NULL);
}

/* cmocka's asserts are for the main thread: count. */
static bool write_and_read(struct store *s, const char *name)
{
	struct store_writer *w;
	char buf[100];

	if (store_create(s, name, &w, NULL) < 0)
		return false;
	if (store_write(w, name, strlen(name), NULL) < 0) {
		store_abort(w);
		return false;
	}
	return store_commit(w, NULL) == 0 &&
	       store_read(s, name, 0, buf, sizeof(buf), NULL) == (int64_t)strlen(name) &&
	       memcmp(buf, name, strlen(name)) == 0;
}

static void *write_many(void *arg)
{
	struct worker *w = arg;
	char name[64];

	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%u/x/y/%u/%u", i, i % 7, w->number);
		w->done += write_and_read(w->store, name);
		snprintf(name, sizeof(name), "%u/x/y/same", i); /* written by all of them */
		w->done += write_and_read(w->store, name);
	}
	return NULL;
}

static void threads_write_and_read_in_directories_that_they_make_at_once(void **state)
{
	struct worker w[NR_THREADS];

	(void)state;
	run_all(tree, write_many, w);
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(w[i].done, 100);
	assert_int_equal(count_in("3/x/y"), 2);
	assert_int_equal(count_in("3/x/y/3"), NR_THREADS);
}

static void *read_many(void *arg)
{
	struct worker *w = arg;
	char buf[64];

	for (unsigned i = 0; i < 1000; i++) {
		int64_t n = store_read(w->store, "a", 0, buf, sizeof(buf), NULL);

		w->failed += n == -EIO;
		w->done += n == 10 && memcmp(buf, "0123456789", 10) == 0;
	}
	return NULL;
}

static void threads_share_the_count_of_faults(void **state)
{
	const struct store_fault fault = { STORE_READ, 100, 777, -EIO, 0 };
	struct worker w[NR_THREADS];
	uint64_t failed = 0, done = 0;
	struct store *s, *below = open_store(test_path("root"));

	(void)state;
	put(below, "a", "0123456789", 10);
	assert_int_equal(store_fault_new(below, &fault, 1, &s, NULL), 0);
	run_all(s, read_many, w);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		failed += w[i].failed;
		done += w[i].done;
	}
	assert_int_equal(failed, 777);
	assert_int_equal(done, NR_THREADS * 1000 - 777);
	assert_int_equal(store_fault_fired(s), 777);
	store_close(s);
}

static void a_fetch_that_gets_fewer_bytes_is_noticed(void **state)
{
	const struct store_fault fault = { STORE_READ, 2, 1, 0, 1 };
	struct store *s, *below = open_store(test_path("root"));
	struct store_object object;
	struct shoal_err err = { "" };
	int fd = spill_open(test_dir(), &err);

	(void)state;
	put(below, "a", "0123456789", 10);
	assert_int_equal(store_fault_new(below, &fault, 1, &s, &err), 0);
	assert_int_equal(store_examine(s, "a", NULL, &object, &err), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_fetch(s, "a", &object, fd, NULL, &err),
				 i == 1 ? -ESTALE : 0);
	assert_int_equal(store_fault_fired(s), 1);
	close(fd);
	store_close(s);
}

/* ---- Null ---- */

static void a_null_store_has_one_name_however_it_is_written(void **state)
{
	static const struct {
		const char *given, *uri;
	} row[] = {
		{ "null:", "null:size=0,delay_us=0" },
		{ "null:size=300000,delay_us=100", "null:size=300000,delay_us=100" },
		{ "null:delay_us=100,size=300KB", "null:size=300000,delay_us=100" },
		{ "null:size=4K", "null:size=4096,delay_us=0" },
		{ "null:delay_us=3600000000", "null:size=0,delay_us=3600000000" },
		{ "null:size=9223372036854775807", "null:size=9223372036854775807,delay_us=0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct store *s = open_store(row[i].given);

		assert_string_equal(s->uri, row[i].uri);
		store_close(s);
	}
}

/* As null/null.c documents it, a byte at a time. */
static uint8_t generated(const char *name, uint64_t off)
{
	uint64_t s = XXH3_64bits(name, strlen(name)), word;
	unsigned __int128 product;

	for (uint64_t i = 0; i <= off / 8; i++)
		s += UINT64_C(0xa0761d6478bd642f);
	product = (unsigned __int128)s * (s ^ UINT64_C(0xe7037ed1a0b428db));
	word = (uint64_t)(product >> 64) ^ (uint64_t)product;
	return (uint8_t)(word >> 8 * (off % 8));
}

static void null_bytes_depend_on_name_and_offset_only(void **state)
{
	struct store *s = open_store("null:size=1000");
	uint8_t all[1000];
	struct store_stat st;

	(void)state;
	assert_int_equal(store_stat(s, "any/name", &st, NULL), 0);
	assert_int_equal(st.size, 1000);
	assert_false(st.is_dir);
	assert_int_equal(store_read(s, "any/name", 0, all, sizeof(all), NULL), 1000);
	for (size_t i = 0; i < sizeof(all); i++)
		assert_int_equal(all[i], generated("any/name", i));
	for (uint64_t off = 0; off < 1003; off += off < 20 || off > 980 ? 1 : 37)
		for (size_t len = 0; len < 40; len++) {
			size_t want = off < 1000 ? (size_t)u64_min(len, 1000 - off) : 0;
			uint8_t *exact = allocate(want, 1); /* ASan sees a byte too many */

			assert_int_equal(store_read(s, "any/name", off, exact, len, NULL), want);
			assert_memory_equal(exact, all + (want ? off : 0), want);
			free(exact);
		}
	assert_int_equal(store_read(s, "a", UINT64_MAX, all, 1, NULL), 0);
	store_close(s);
}

static void null_bytes_neither_compress_nor_repeat(void **state)
{
	const size_t len = 1 << 20;
	struct store *s = open_store("null:size=9223372036854775807");
	uint8_t *bytes = allocate(2 * len, 1), *packed = allocate(ZSTD_compressBound(2 * len), 1);

	(void)state;
	assert_int_equal(store_read(s, "img_1.jpg", 0, bytes, len, NULL), len);
	assert_int_equal(store_read(s, "img_2.jpg", 0, bytes + len, len, NULL), len);
	assert_true(ZSTD_compress(packed, ZSTD_compressBound(2 * len), bytes, 2 * len, 19) >=
		    2 * len);
	assert_int_equal(store_read(s, "a", INT64_MAX - 3, bytes, len, NULL), 3);
	store_close(s);
	free(bytes);
	free(packed);
}

static void a_null_store_takes_everything_and_has_no_list(void **state)
{
	struct store *s = open_store("null:");
	struct store_list_options options = { 0 };
	struct store_sink sink = { 0 };
	char byte;

	(void)state;
	put(s, "a/b", "123", 3);
	store_abort(create(s, "a"));
	assert_int_equal(store_remove(s, "c", NULL), 0);
	assert_int_equal(store_read(s, "a/b", 0, &byte, 1, NULL), 0);
	check_fails(store_list(s, &options, NULL, 0, &sink, &err), -ENOTSUP,
		    "a null store cannot be listed: make a catalog from a pattern");
	store_close(s);
}

/* ---- Stores on stores ---- */

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static struct store *fault_on(struct store *below, const struct store_fault *faults, size_t nr)
{
	struct store *s = NULL;

	assert_int_equal(store_fault_new(below, faults, nr, &s, NULL), 0);
	assert_string_equal(s->uri, below->uri);
	return s;
}

/* Make every operation but the listing once. The error of the first that failed. */
static int do_all(struct store *s, struct shoal_err *err)
{
	struct store_writer *w = NULL;
	struct store_stat st;
	char buf[10];
	int64_t n;
	int rc;

	rc = store_create(s, "d/x", &w, err);
	if (rc < 0)
		return rc;
	rc = store_write(w, "0123456789", 10, err);
	if (rc == 0)
		rc = store_write(w, "", 0, err);
	if (rc < 0) {
		store_abort(w);
		return rc;
	}
	rc = store_commit(w, err);
	if (rc < 0)
		return rc;
	rc = store_stat(s, "d/x", &st, err);
	n = rc < 0 ? rc : store_read(s, "d/x", 0, buf, sizeof(buf), err);
	rc = n < 0 ? (int)n : n == 10 && st.size == 10 ? 0 : -EPROTO;
	if (rc == 0)
		rc = store_sync(s, err);
	return rc < 0 ? rc : store_remove(s, "d/x", err);
}

static void room_is_told_where_it_is_known(void **state)
{
	struct store_space space = { 0 };
	struct store *s = open_store(test_path("root"));
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(store_space(s, &space, NULL), 0);
	assert_true(space.bytes > 0 && space.bytes < UINT64_MAX && space.names > 0);
	store_close(s);
	s = open_store("/proc"); /* it has no blocks at all, which is not the same as no room */
	assert_int_equal(store_space(s, &space, NULL), 0);
	assert_true(space.bytes == UINT64_MAX && space.names == UINT64_MAX);
	store_close(s);
	s = open_store("null:size=10");
	assert_int_equal(store_space(s, &space, &err), -ENOTSUP);
	check_words(&err, "free space");
	assert_int_equal(store_sync(s, NULL), 0);
	store_close(s);
}

static void each_call_can_be_made_to_fail_and_leaves_nothing(void **state)
{
	static const char *const words[] = { "stat",   "read",   "create", "write",
					     "commit", "remove", "list",   "sync" };
	static const int calls[] = { 1, 1, 1, 2, 1, 1, 0, 1 };

	(void)state;
	for (unsigned on_null = 0; on_null < 2; on_null++)
		for (unsigned op = STORE_STAT; op <= STORE_SYNC; op++) {
			uint64_t nth = 1;

			if (op == STORE_LIST) /* it has a sweep of its own */
				continue;
			for (bool fired = true; fired; nth++) {
				struct store_fault f = { (enum store_op)op, nth, 1, -ESTALE, 0 };
				struct shoal_err err = { "" };
				struct store *s = fault_on(
					open_store(on_null ? "null:size=10" : test_path("root")),
					&f, 1);
				int rc = do_all(s, &err);

				fired = store_fault_fired(s) > 0;
				assert_int_equal(rc, fired ? -ESTALE : 0);
				if (fired)
					check_words(&err, words[op]);
				assert_int_equal(do_all(s, NULL), fired ? 0 : -ESTALE);
				store_close(s);
				unlink(test_path("root/d/x")); /* where the remove failed */
				rmdir(test_path("root/d"));
				assert_int_equal(count_in("."), 0);
			}
			assert_int_equal(nth - 2, calls[op]);
		}
}

/* All that takes memory. The error of the first that failed; nothing is left in any case. */
static int take_memory(struct shoal_err *err)
{
	const struct store_fault fault = { STORE_READ, 1, 1, -EIO, 0 };
	const char *const uri[] = { test_path("root"), "null:size=1" };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(uri) && rc == 0; i++) {
		struct store *s = NULL, *above = NULL;
		struct store_writer *w = NULL;

		rc = store_open(uri[i], NULL, &s, err);
		if (rc == 0)
			rc = store_fault_new(s, &fault, 1, &above, err);
		s = rc == 0 ? above : s;
		if (rc == 0)
			rc = store_delay_new(s, 0, &above, err);
		s = rc == 0 ? above : s;
		if (rc == 0)
			rc = store_create(s, "x", &w, err);
		store_abort(w);
		store_close(s);
	}
	return rc;
}

static void each_allocation_may_fail(void **state)
{
	int nth = 1;

	(void)state;
	for (int rc = -ENOMEM; rc < 0; nth++) {
		struct shoal_err err = { "" };

		fault_arm(&failing_call, FAULT_MALLOC | FAULT_CALLOC | FAULT_STRDUP, nth,
			  FAULT_ONCE, ENOMEM);
		rc = take_memory(&err);
		fault_disarm(&failing_call);
		assert_int_equal(rc, failing_call.fired ? -ENOMEM : 0);
		if (rc < 0)
			check_words(&err, "out of memory");
		assert_int_equal(count_in("."), 0);
	}
	assert_true(nth > 15);
}

static void faults_start_at_the_nth_call_and_end_after_their_count(void **state)
{
	static const struct store_fault faults[] = {
		{ STORE_READ, 3, 2, -EIO, 0 },     { STORE_READ, 4, 3, -EPERM, 0 },
		{ STORE_READ, 9, 1, 0, 4 },        { STORE_READ, 10, 1, 0, 100 },
		{ STORE_READ, 12, 0, -ENOSPC, 0 }, { STORE_STAT, 1, 0, -EBADMSG, 0 },
	};
	static const int want[] = { 10, 10, -EIO, -EIO, -EPERM,  -EPERM,  10,
				    10, 6,  0,    10,   -ENOSPC, -ENOSPC, -ENOSPC };
	struct store *s = fault_on(open_store("null:size=10"), faults, ARRAY_LEN(faults));
	struct store_stat st;
	char buf[10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(store_read(s, "a", 0, buf, sizeof(buf), NULL), want[i]);
	assert_int_equal(store_fault_fired(s), 9);
	for (int i = 0; i < 3; i++)
		check_fails(store_stat(s, "a", &st, &err), -EBADMSG, "fails on purpose");
	store_close(s);
}

static void a_failed_write_above_is_not_committed_below(void **state)
{
	static const struct store_fault faults[] = { { STORE_WRITE, 2, 1, -EIO, 0 } };
	struct store *s = fault_on(open_store(test_path("root")), faults, 1);
	struct store_writer *w = create(s, "a");

	(void)state;
	assert_int_equal(store_write(w, "1", 1, NULL), 0);
	check_fails(store_write(w, "2", 1, &err), -EIO, "write number 2 fails on purpose");
	assert_int_equal(store_write(w, "2", 1, NULL), -EIO);
	check_fails(store_commit(w, &err), -EIO, "incomplete");
	assert_int_equal(count_in("."), 0);
	store_close(s);
}

static void faults_that_say_nothing_are_refused(void **state)
{
	static const struct {
		struct store_fault fault;
		const char *words;
	} row[] = {
		{ { STORE_READ, 0, 1, -EIO, 0 }, "calls count from 1" },
		{ { STORE_READ, 1, 1, 0, 0 }, "neither fails nor shortens" },
		{ { STORE_STAT, 1, 1, 0, 3 }, "neither fails nor shortens" },
		{ { STORE_READ, 1, 1, 5, 3 }, "neither fails nor shortens" },
	};
	struct store *s = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		check_fails(store_fault_new(tree, &row[i].fault, 1, &s, &err), -EINVAL,
			    row[i].words);
	check_fails(store_delay_new(tree, STACK_DELAY_MAX_US + 1, &s, &err), -EINVAL, "at most");
	assert_null(s);
	put(tree, "a", "", 0); /* it was not taken */
}

struct unit_sink {
	struct store_sink base;
	uint64_t bytes;
};

static int take_unit(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err)
{
	(void)unit;
	(void)err;
	((struct unit_sink *)sink)->bytes += len;
	return 0;
}

static void a_listing_passes_through_and_fails_at_the_nth_unit(void **state)
{
	static const struct store_ops ops = { .kind = "bare", .list = bare_list };
	static const struct store_fault fault = { STORE_LIST, 3, 1, -EIO, 0 };
	struct bare bare = { .base = { .ops = &ops, .uri = (char[]){ "bare:" } } };
	struct unit_sink sink = { .base.add_unit = take_unit };
	struct store_list_options options = { 0 };
	struct store *s, *faulty = fault_on(&bare.base, &fault, 1);
	char *unit = allocate(STORE_UNIT_MAX + 1, 1);

	(void)state;
	assert_int_equal(store_delay_new(faulty, 1, &s, NULL), 0);
	for (int i = 1; i <= 5; i++)
		assert_int_equal(store_list(s, &options, unit, 10, &sink.base, NULL),
				 i == 3 ? -EIO : 0);
	assert_int_equal(bare.lists, 4);
	assert_int_equal(sink.bytes, 40);
	assert_int_equal(store_list(s, &options, unit, STORE_UNIT_MAX, &sink.base, NULL), 0);
	check_fails(store_list(s, &options, unit, STORE_UNIT_MAX + 1, &sink.base, &err), -EINVAL,
		    "more than 61440 bytes");
	store_close(s);
	free(unit);
}

static void a_store_on_a_store_passes_on_all_that_the_one_below_is_and_does(void **state)
{
	const struct store_fault fault = { STORE_READ, 9, 1, -EIO, 0 };
	struct store *s, *below = open_store("null:size=1,fill=none");
	const struct store_traits is = below->traits;
	void *op[sizeof(*s->ops) / sizeof(void *)];

	(void)state;
	assert_true(is.synthetic && is.instant);
	s = fault_on(below, &fault, 1);
	assert_memory_equal(&s->traits, &is, sizeof(is));
	memcpy(op, s->ops, sizeof(op));
	for (size_t i = 0; i < ARRAY_LEN(op); i++)
		assert_non_null(op[i]); /* one that is missing is a call that does not arrive */
	assert_int_equal(store_delay_new(s, 1, &below, NULL), 0);
	assert_true(below->traits.synthetic && !below->traits.instant);
	store_close(below);
}

static void on_alarm(int signal_number)
{
	(void)signal_number;
}

static void a_delay_makes_every_call_longer_whatever_signals_come(void **state)
{
	const struct store_fault fault = { STORE_READ, 2, 1, -EIO, 0 };
	struct sigaction quiet = { .sa_handler = on_alarm }, before;
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	struct store *s, *null = open_store("null:size=1,delay_us=20000");
	uint64_t start;
	char byte;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &quiet, &before), 0);
	assert_int_equal(
		store_delay_new(fault_on(open_store(test_path("root")), &fault, 1), 5000, &s, NULL),
		0);
	assert_string_equal(s->uri, tree->uri);
	assert_string_equal(s->ops->kind, "delay");
	start = now_us();
	setitimer(ITIMER_REAL, &every, NULL);
	assert_int_equal(do_all(s, NULL), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(now_us() - start >= 7 * 5000);
	check_fails(store_read(s, "d/x", 0, &byte, 1, &err), -EIO, "read number 2 fails");
	check_fails(store_read(s, "d/x", 0, &byte, 1, &err), -ENOENT, "does not exist");
	store_close(s);
	start = now_us();
	assert_int_equal(store_read(null, "a", 0, &byte, 1, NULL), 1);
	assert_true(now_us() - start >= 20000);
	store_close(null);
	sigaction(SIGALRM, &before, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_directory_is_opened_by_its_uri_or_path_and_has_one_name),
		TEST(what_is_no_store_is_named_in_words),
		TEST(names_are_checked_before_a_store_sees_them),
		TEST(what_a_store_lacks_is_said),
		TEST(what_is_written_comes_back_in_any_pieces),
		TEST(reads_go_on_after_signals_and_short_answers),
		TEST(any_bytes_are_a_name),
		TEST(a_part_of_more_than_255_bytes_is_refused_at_once),
		TEST(nothing_has_the_name_before_commit_and_nothing_is_left_after_abort),
		TEST(a_write_that_fails_ends_the_file_and_leaves_nothing),
		TEST(a_commit_that_fails_leaves_nothing_and_keeps_what_was_there),
		TEST(a_partial_name_that_is_taken_is_left_alone),
		TEST(a_name_that_no_file_can_have_is_refused),
		TEST(what_is_no_file_is_not_read),
		TEST(what_may_not_be_touched_says_so),
		TEST(a_store_stays_where_it_was_opened),
		TEST(threads_write_and_read_in_directories_that_they_make_at_once),
		TEST(threads_share_the_count_of_faults),
		TEST(a_fetch_that_gets_fewer_bytes_is_noticed),
		TEST(a_null_store_has_one_name_however_it_is_written),
		TEST(null_bytes_depend_on_name_and_offset_only),
		TEST(null_bytes_neither_compress_nor_repeat),
		TEST(a_null_store_takes_everything_and_has_no_list),
		TEST(room_is_told_where_it_is_known),
		TEST(each_call_can_be_made_to_fail_and_leaves_nothing),
		TEST(each_allocation_may_fail),
		TEST(faults_start_at_the_nth_call_and_end_after_their_count),
		TEST(a_failed_write_above_is_not_committed_below),
		TEST(faults_that_say_nothing_are_refused),
		TEST(a_listing_passes_through_and_fails_at_the_nth_unit),
		TEST(a_store_on_a_store_passes_on_all_that_the_one_below_is_and_does),
		TEST(a_delay_makes_every_call_longer_whatever_signals_come),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
