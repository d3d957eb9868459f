/*
 * Goal: a file is there whole or not at all, what is written arrives, and a mapped file that
 * shrinks gives an error instead of a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "base/out.h"
#include "base/publish.h"
#include "help.h"

/* ---- out ---- */

static void what_is_written_through_a_buffer_arrives(void **state)
{
	const char *path = test_path("out");
	uint8_t *want = allocate(100000, 1), *got;
	struct out o;
	size_t len;
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	(void)state;
	for (size_t i = 0; i < 100000; i++)
		want[i] = (uint8_t)random_u64();
	assert_int_equal(out_init(&o, fd, 7, 4096), 0);
	for (size_t at = 0; at < 100000;) {
		size_t n = u64_min(random_below(9000), 100000 - at);

		assert_int_equal(out_tell(&o), 7 + at);
		out_write(&o, want + at, n);
		at += n;
	}
	out_flush(&o);
	assert_int_equal(o.rc, 0);
	out_release(&o);
	got = file_read(path, &len);
	assert_int_equal(len, 100007);
	assert_memory_equal(got + 7, want, 100000);
	assert_int_equal(pread_all(fd, got, 100000, 7), 0);
	assert_int_equal(pread_all(fd, got, 100000, 8), -EIO); /* the file ends before */
	assert_int_equal(pread_all(fd, got, 0, 1 << 30), 0);
	close(fd);
	assert_int_equal(pread_all(fd, got, 1, 0), -EBADF);
	assert_int_equal(out_init(&o, fd, 0, 16), 0);
	out_write(&o, want, 100);
	assert_int_equal(o.rc, -EBADF);
	assert_int_equal(out_tell(&o), 100);
	out_release(&o);
	unlink(path);
	free(want);
	free(got);
}

/* ---- publish ---- */

static void write_text(int fd, const char *text)
{
	assert_int_equal(pwrite_all(fd, text, strlen(text), 0), 0);
}

static void assert_file(const char *path, const char *text)
{
	size_t len;
	uint8_t *bytes = file_read(path, &len);

	assert_int_equal(len, strlen(text));
	assert_memory_equal(bytes, text, len);
	free(bytes);
}

static void a_file_appears_whole_or_not_at_all(void **state)
{
	const char *path = test_path("file");
	struct publish pub = PUBLISH_CLOSED;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(publish_open(path, &pub, &err), 0);
	write_text(pub.fd, "first");
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(publish_commit(&pub, &err), 0);
	assert_file(path, "first");
	publish_abort(&pub); /* after commit: nothing happens */
	assert_file(path, "first");

	assert_int_equal(publish_open(path, &pub, &err), 0);
	write_text(pub.fd, "second");
	publish_abort(&pub);
	publish_abort(&pub);
	assert_file(path, "first");
	assert_int_equal(test_dir_count(), 1);
	unlink(path);
}

static void a_second_writer_is_told_so(void **state)
{
	const char *path = test_path("file");
	struct publish pub = PUBLISH_CLOSED, second = PUBLISH_CLOSED;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(publish_open(path, &pub, &err), 0);
	assert_int_equal(publish_open(path, &second, &err), -EBUSY);
	assert_non_null(strstr(err.msg, path));
	assert_int_equal(second.fd, -1);
	write_text(pub.fd, "mine");
	assert_int_equal(publish_commit(&pub, &err), 0);
	assert_int_equal(publish_open(path, &second, &err), 0);
	publish_abort(&second);
	assert_file(path, "mine");
	unlink(path);
}

static void what_a_killed_writer_left_is_taken_over(void **state)
{
	const char *path = test_path("file");
	struct publish pub = PUBLISH_CLOSED;
	struct shoal_err err = { "" };

	(void)state;
	file_write(test_path(".file.00000000.partial"), "a longer text than ours", 23);
	assert_int_equal(publish_open(path, &pub, &err), 0);
	write_text(pub.fd, "new");
	assert_int_equal(publish_commit(&pub, &err), 0);
	assert_file(path, "new");
	assert_int_equal(test_dir_count(), 1);
	unlink(path);
}

static void names_up_to_the_longest_can_be_published(void **state)
{
	(void)state;
	for (size_t len = 240; len <= 256; len++) {
		struct publish pub = PUBLISH_CLOSED;
		struct shoal_err err = { "" };
		char name[257] = "";
		int rc;

		memset(name, 'n', len);
		rc = publish_open(test_path(name), &pub, &err);
		if (rc == 0) { /* what is left of it by a kill is listed by nobody */
			assert_true(path_is_own(pub.partial, strlen(pub.partial)));
			rc = publish_commit(&pub, &err);
		}
		assert_int_equal(rc, len <= 255 ? 0 : -ENAMETOOLONG);
		assert_int_equal(test_dir_count(), len <= 255 ? 1 : 0);
		unlink(test_path(name));
	}
}

static void what_is_no_file_cannot_be_published(void **state)
{
	static const struct {
		const char *path; /* starting with a slash, or below the test's folder */
		int want;
		const char *says;
	} row[] = {
		{ "", -EISDIR, "names a directory" },
		{ "x/", -EISDIR, "names a directory" },
		{ ".", -EISDIR, "is a directory" },
		{ "/dev/null", -ENOTSUP, "not a regular file" },
		{ "none/x", -ENOENT, "cannot write" },
	};
	struct publish pub = PUBLISH_CLOSED;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const char *path = row[i].path[0] == '/' ? row[i].path : test_path(row[i].path);
		struct shoal_err err = { "" };

		assert_int_equal(publish_open(path, &pub, &err), row[i].want);
		assert_non_null(strstr(err.msg, row[i].says));
		assert_int_equal(pub.fd, -1);
	}
	assert_int_equal(test_dir_count(), 0);
}

/* In a directory that anyone may write to. The kernel's own rule may be off (protected_symlinks).
 */
static void a_link_of_another_user_is_not_followed_wherever_in_the_path_it_is(void **state)
{
	static const struct {
		const char *path;
		int rc;
	} cases[] = {
		{ "sticky/theirs/x", -EPERM }, /* a directory on the way */
		{ "sticky/theirs/in/x", -EPERM },
		{ "sticky/file", -EPERM },      /* the last component */
		{ "through/theirs/x", -EPERM }, /* behind a link that may be followed */
		{ "mine/x", -EPERM },           /* whose target goes that way */
		{ "sticky/ours/x", 0 },
		{ "sticky/../dir/x", 0 },
		{ "through/ours/x", 0 },
	};
	char target[600];

	(void)state;
	if (geteuid() != 0)
		return; /* only root can make links of another user */
	assert_int_equal(mkdir(test_path("sticky"), 0777), 0);
	assert_int_equal(chmod(test_path("sticky"), 01777), 0);
	assert_int_equal(mkdir(test_path("dir"), 0755), 0);
	assert_int_equal(mkdir(test_path("dir/in"), 0755), 0);
	snprintf(target, sizeof(target), "%s", test_path("dir"));
	assert_int_equal(symlink(target, test_path("sticky/theirs")), 0);
	assert_int_equal(symlink(target, test_path("sticky/ours")), 0);
	assert_int_equal(symlink("../dir/x", test_path("sticky/file")), 0);
	assert_int_equal(symlink("sticky", test_path("through")), 0);
	assert_int_equal(symlink("sticky/theirs", test_path("mine")), 0);
	assert_int_equal(lchown(test_path("sticky/theirs"), 65534, 65534), 0);
	assert_int_equal(lchown(test_path("sticky/file"), 65534, 65534), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct publish pub = PUBLISH_CLOSED;
		struct shoal_err err = { "" };

		assert_int_equal(publish_open(test_path(cases[i].path), &pub, &err), cases[i].rc);
		assert_true(cases[i].rc == 0 || strstr(err.msg, "another user's symbolic link"));
		publish_abort(&pub);
	}
	unlink(test_path("sticky/theirs"));
	unlink(test_path("sticky/ours"));
	unlink(test_path("sticky/file"));
	unlink(test_path("through"));
	unlink(test_path("mine"));
	rmdir(test_path("dir/in"));
	rmdir(test_path("dir"));
	rmdir(test_path("sticky"));
}

static void a_link_stays_and_its_target_is_replaced(void **state)
{
	struct publish pub = PUBLISH_CLOSED;
	struct shoal_err err = { "" };
	struct stat st;

	(void)state;
	file_write(test_path("target"), "old", 3);
	assert_int_equal(symlink("target", test_path("link")), 0);
	assert_int_equal(publish_open(test_path("link"), &pub, &err), 0);
	write_text(pub.fd, "new");
	assert_int_equal(publish_commit(&pub, &err), 0);
	assert_int_equal(lstat(test_path("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_file(test_path("target"), "new");
	unlink(test_path("link"));
	unlink(test_path("target"));
}

static void a_temporary_file_has_no_name(void **state)
{
	struct shoal_err err = { "" };
	int fd = spill_open(test_dir(), &err);

	(void)state;
	assert_true(fd >= 0);
	write_text(fd, "spilled");
	assert_int_equal(test_dir_count(), 0);
	close(fd);
	assert_int_equal(spill_open(test_path("none"), &err), -ENOENT);
	assert_non_null(strstr(err.msg, "cannot make a temporary file"));
}

static void the_folder_of_a_path_is_found(void **state)
{
	static const char *const row[][2] = {
		{ "a", "." },     { "a/b", "a" },     { "/a", "/" },
		{ "/a/b", "/a" }, { "a/b/c", "a/b" }, { "./a", "." }
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char *dir = path_dir(row[i][0]);

		assert_string_equal(dir, row[i][1]);
		free(dir);
	}
}

/* ---- map ---- */

static void a_map_holds_the_file_and_notices_when_it_changes(void **state)
{
	struct map map = MAP_CLOSED;
	struct shoal_err err = { "" };

	(void)state;
	file_write(test_path("m"), "bytes", 5);
	assert_int_equal(map_open(test_path("m"), &map, &err), 0);
	assert_int_equal(map.len, 5);
	assert_memory_equal(map.addr, "bytes", 5);
	assert_int_equal(map_check(&map, &err), 0);
	file_write(test_path("m"), "longer bytes", 12);
	assert_int_equal(map_check(&map, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "from 5 to 12 bytes"));
	map_close(&map);
	map_close(&map);
	assert_int_equal(map.fd, -1);

	file_write(test_path("m"), "", 0);
	assert_int_equal(map_open(test_path("m"), &map, &err), 0);
	assert_int_equal(map.len, 0);
	assert_false(map_faulted(&map));
	map_close(&map);
	unlink(test_path("m"));
	assert_int_equal(map_open(test_path("m"), &map, &err), -ENOENT);
	assert_int_equal(map_open(test_dir(), &map, &err), -EINVAL);
	assert_int_equal(mkfifo(test_path("m"), 0600), 0);
	assert_int_equal(map_open(test_path("m"), &map, &err), -EINVAL); /* and does not hang */
	unlink(test_path("m"));
}

static void reading_past_the_end_of_a_file_that_shrank_gives_zeros(void **state)
{
	struct map map = MAP_CLOSED, other = MAP_CLOSED;
	size_t len = 5 * 4096 + 100;
	uint8_t *bytes = allocate(len, 1);
	const volatile uint8_t *p;

	(void)state;
	sigbus_guard();
	memset(bytes, 'x', len);
	file_write(test_path("m"), bytes, len);
	file_write(test_path("n"), bytes, len);
	assert_int_equal(map_open(test_path("m"), &map, NULL), 0);
	assert_int_equal(map_open(test_path("n"), &other, NULL), 0);
	assert_int_equal(truncate(test_path("m"), 4096), 0);
	p = map.addr;
	assert_int_equal(p[0], 'x');
	assert_false(map_faulted(&map));
	for (size_t at = 4096; at < len; at += 1000)
		assert_int_equal(p[at], 0);
	assert_true(map_faulted(&map));
	assert_int_equal(map_check(&map, NULL), -ESTALE);
	assert_false(map_faulted(&other));
	map_close(&map);
	map_close(&other);
	unlink(test_path("m"));
	unlink(test_path("n"));
	free(bytes);
}

static volatile sig_atomic_t foreign_signals;
static sigjmp_buf foreign_jump;

static void on_foreign(int sig)
{
	(void)sig;
	foreign_signals++;
	siglongjmp(foreign_jump, 1);
}

static void on_foreign_info(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_addr)
		on_foreign(sig);
}

/* A page of a file that is not there, mapped by somebody else. */
static const volatile uint8_t *foreign_map(void)
{
	int fd = memfd_create("foreign", 0);
	void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	return p;
}

/* What becomes of a foreign SIGBUS in a process where @handler was there first. */
static int foreign_child(int handler)
{
	struct sigaction act = { .sa_handler = SIG_DFL };
	struct map map = MAP_CLOSED;
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	if (handler == 1)
		act.sa_handler = on_foreign;
	if (handler == 2) {
		act.sa_sigaction = on_foreign_info;
		act.sa_flags = SA_SIGINFO;
	}
	sigaction(SIGBUS, &act, NULL);
	if (map_open("/proc/self/exe", &map, NULL) < 0)
		return 3;
	if (sigsetjmp(foreign_jump, 1) == 0)
		(void)*foreign_map();
	return foreign_signals == 1 ? 0 : 4;
}

/* In processes that have not mapped anything yet, so before any other test: see main(). */
static int foreign_status[3];

static void run_foreign_children(void)
{
	for (int handler = 0; handler < 3; handler++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(foreign_child(handler));
		if (pid < 0 || waitpid(pid, &foreign_status[handler], 0) != pid)
			abort();
	}
}

static void a_foreign_sigbus_goes_to_the_handler_that_was_there(void **state)
{
	(void)state;
	assert_true(WIFSIGNALED(foreign_status[0]));
	assert_int_equal(WTERMSIG(foreign_status[0]), SIGBUS);
	for (int handler = 1; handler < 3; handler++) {
		assert_true(WIFEXITED(foreign_status[handler]));
		assert_int_equal(WEXITSTATUS(foreign_status[handler]), 0);
	}
}

static void who_installs_a_handler_later_gets_what_is_not_ours(void **state)
{
	struct sigaction act = { .sa_sigaction = on_foreign_info, .sa_flags = SA_SIGINFO };
	struct map map = MAP_CLOSED;

	(void)state;
	sigbus_guard();
	file_write(test_path("m"), "bytes", 5);
	assert_int_equal(map_open(test_path("m"), &map, NULL), 0);
	assert_int_equal(truncate(test_path("m"), 0), 0);
	sigaction(SIGBUS, &act, NULL);
	shoal_catch_sigbus();
	shoal_catch_sigbus(); /* in front already: else it would be before itself */
	assert_int_equal(*(const volatile uint8_t *)map.addr, 0);
	assert_true(map_faulted(&map));
	foreign_signals = 0;
	if (sigsetjmp(foreign_jump, 1) == 0)
		(void)*foreign_map();
	assert_int_equal(foreign_signals, 1);
	map_close(&map);
	unlink(test_path("m"));
}

static void more_maps_than_the_table_has_are_refused(void **state)
{
	static struct map map[1100];
	struct rlimit limit;
	struct shoal_err err = { "" };
	size_t nr = 0;
	int rc = 0;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &limit);
	file_write(test_path("m"), "bytes", 5);
	while (rc == 0 && nr < ARRAY_LEN(map)) {
		map[nr] = MAP_CLOSED;
		rc = map_open(test_path("m"), &map[nr++], &err);
	}
	assert_int_equal(rc, -EMFILE);
	if (limit.rlim_cur > 1100) {
		assert_int_equal(nr, 1025);
		assert_non_null(strstr(err.msg, "1024 catalogs are already open"));
	}
	while (nr > 0)
		map_close(&map[--nr]);
	assert_int_equal(map_open(test_path("m"), &map[0], &err), 0);
	map_close(&map[0]);
	unlink(test_path("m"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_through_a_buffer_arrives),
		cmocka_unit_test(a_file_appears_whole_or_not_at_all),
		cmocka_unit_test(a_second_writer_is_told_so),
		cmocka_unit_test(what_a_killed_writer_left_is_taken_over),
		cmocka_unit_test(names_up_to_the_longest_can_be_published),
		cmocka_unit_test(what_is_no_file_cannot_be_published),
		cmocka_unit_test(a_link_stays_and_its_target_is_replaced),
		cmocka_unit_test(a_link_of_another_user_is_not_followed_wherever_in_the_path_it_is),
		cmocka_unit_test(a_temporary_file_has_no_name),
		cmocka_unit_test(the_folder_of_a_path_is_found),
		cmocka_unit_test(a_map_holds_the_file_and_notices_when_it_changes),
		cmocka_unit_test(reading_past_the_end_of_a_file_that_shrank_gives_zeros),
		cmocka_unit_test(a_foreign_sigbus_goes_to_the_handler_that_was_there),
		cmocka_unit_test(who_installs_a_handler_later_gets_what_is_not_ours),
		cmocka_unit_test(more_maps_than_the_table_has_are_refused),
	};

	run_foreign_children();
	sigbus_guard_init();
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
