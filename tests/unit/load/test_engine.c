/*
 * Goal: every engine brings the bytes that are in the files, each request back exactly once, with
 * what went wrong in words, whatever the kernel permits and however few descriptors there are.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <liburing.h>

#include "faults.h"
#include "help.h"
#include "load/cached.h"
#include "load/engine_private.h"
#include "stack.h"

/* ---- Calls that fail, and a clock that is set ---- */

static struct fault ring_fault, thread_fault, openat2_fault, cachestat_fault, other_fault;
static atomic_bool busy; /* a thread that reads its CPU time has used all of its core, or none */
static pthread_t owner;
static atomic_int helped;               /* files opened by threads other than the owner */
static atomic_int passed;               /* seconds that have passed since the clock was stopped */
static struct timespec stopped;         /* when it was; 0: it runs */
static atomic_int typed_fd, type_of_fd; /* which file has another file system; 0: as it is */

static void count_helped(void)
{
	helped += !pthread_equal(pthread_self(), owner);
}

/* All of these calls fail with @error; 0: none of them. */
static void fail_all(struct fault *f, unsigned calls, int error)
{
	fault_disarm(f);
	if (error)
		fault_arm(f, calls, 1, FAULT_FROM_THEN_ON, error);
}

/* Only @nr further threads can be started. */
static void limit_threads(int nr)
{
	fault_arm(&thread_fault, FAULT_THREAD, nr + 1, FAULT_FROM_THEN_ON, EAGAIN);
}

/* So many that threads make calls. */
unsigned __wrap_cores_allowed(void);

unsigned __wrap_cores_allowed(void)
{
	return 4;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock == CLOCK_THREAD_CPUTIME_ID && !busy) {
		*t = (struct timespec){ 0, 0 };
		return 0;
	}
	if (stopped.tv_sec == 0)
		return __real_clock_gettime(CLOCK_MONOTONIC, t);
	*t = stopped;
	t->tv_sec += passed;
	return 0;
}

int __wrap_fstatfs64(int fd, struct statfs *fs);
int __real_fstatfs64(int fd, struct statfs *fs);

int __wrap_fstatfs64(int fd, struct statfs *fs)
{
	int rc = __real_fstatfs64(fd, fs);

	if (type_of_fd && fd == typed_fd)
		fs->f_type = type_of_fd;
	return rc;
}

/* ---- A directory on a disk, as not every kernel has O_DIRECT for what is in memory ---- */

static char dir[] = "engine-XXXXXX";
static struct store *tree;
static size_t open_before;

static const uint64_t sizes[] = { 0, 1, 511, 4095, 4096, 4097, 8191, 8192, 300000, 1u << 20 };

static uint8_t byte_at(uint64_t key, uint64_t off)
{
	uint64_t x = (off + 1) * UINT64_C(0x9e3779b97f4a7c15) + key;

	return (uint8_t)(x >> 32 ^ x >> 48);
}

static void put(const char *name, uint64_t key, uint64_t size)
{
	uint8_t *bytes = allocate(size, 1);
	char path[300];

	for (uint64_t i = 0; i < size; i++)
		bytes[i] = byte_at(key, i);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file_write(path, bytes, size);
	free(bytes);
}

static const char *size_name(uint64_t size)
{
	static char name[32];

	snprintf(name, sizeof(name), "d/%" PRIu64, size);
	return name;
}

static int make_files(void **state)
{
	char path[100];

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/d", dir);
	if (mkdir(path, 0777) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		put(size_name(sizes[i]), sizes[i], sizes[i]);
	return store_open(dir, NULL, &tree, NULL);
}

static int remove_files(void **state)
{
	char command[100];

	(void)state;
	store_close(tree);
	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command);
}

static size_t count_open(void)
{
	size_t nr = 0;

	for (int fd = 0; fd < 1024; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

static int setup(void **state)
{
	(void)state;
	open_before = count_open();
	owner = pthread_self();
	fault_on_openat2 = count_helped;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fault_disarm(&ring_fault);
	fault_disarm(&thread_fault);
	fault_disarm(&openat2_fault);
	fault_disarm(&cachestat_fault);
	fault_disarm(&other_fault);
	busy = false;
	passed = type_of_fd = 0;
	stopped.tv_sec = 0;
	/* A ring is torn down behind our back, after its descriptor was closed. */
	return count_open() == open_before ? 0 : -1;
}

/* ---- Engines ---- */

static const struct way {
	enum load_engine_kind kind;
	bool direct, cold, helped;
} ways[] = {
	{ LOAD_URING, false, false, false },
	{ LOAD_URING, true, false, false },
	{ LOAD_URING, false, true, false },
	{ LOAD_URING, true, true, false },
	{ LOAD_THREADS, false, false, false },
	{ LOAD_THREADS, true, false, false },
	{ LOAD_URING, false, false, true },
	{ LOAD_URING, true, true, true },
	{ LOAD_AUTO, false, false, false },
	{ LOAD_AUTO, false, true, true }, /* helped by calls */
};

static void have_help(struct load_engine *e);

/* Of the engine, now. */
static const char *detail_of(const struct load_engine *e)
{
	static char words[LOAD_DETAIL];

	load_engine_describe(e, words);
	return words;
}

/* NULL, said once, where the machine does not have it. */
static struct load_engine *engine_of(const struct way *w, unsigned in_flight)
{
	static bool said[2][2];
	struct load_engine_options o = {
		.kind = w->kind, .store = tree, .in_flight = in_flight, .direct = w->direct
	};
	struct shoal_err err = { "" };
	struct load_engine *e = NULL;
	int rc = load_engine_new(&o, &e, &err);

	if (rc == -ENOTSUP) {
		if (!said[w->kind == LOAD_URING][w->direct])
			print_message("not tested here: %s\n", err.msg);
		said[w->kind == LOAD_URING][w->direct] = true;
		return NULL;
	}
	assert_int_equal(rc, 0);
	assert_string_equal(load_engine_name(e), w->kind == LOAD_THREADS ? "threads" : "uring");
	assert_int_equal(strstr(detail_of(e), "direct") != NULL, w->direct);
	if (w->helped)
		have_help(e);
	fail_all(&openat2_fault, FAULT_OPENAT2, w->cold ? EAGAIN : 0);
	return e;
}

#define GUARD 512 /* bytes behind a buffer that nobody may touch */

static struct load_request *request_for(const char *name, uint64_t off, uint64_t len)
{
	struct load_request *r = allocate(1, sizeof(*r));

	r->name = strdup(name);
	r->off = off;
	r->len = len;
	r->cap = (size_t)load_cap(off, len);
	r->buf = aligned_alloc(LOAD_ALIGN, r->cap + LOAD_ALIGN);
	assert_non_null(r->buf);
	memset(r->buf, 0xee, r->cap + GUARD);
	return r;
}

static void request_free(struct load_request *r)
{
	for (size_t i = 0; i < GUARD; i++)
		assert_int_equal(r->buf[r->cap + i], 0xee);
	free((void *)(uintptr_t)r->name);
	free(r->buf);
	free(r);
}

static struct load_request *reap_one(struct load_engine *e)
{
	struct load_request *r = NULL;

	assert_int_equal(load_engine_reap(e, &r, 1, 60000000, NULL), 1);
	assert_true(r->started <= r->finished);
	if (r->opened)
		assert_in_range(r->opened, r->started, r->finished);
	return r;
}

/* One request alone: its result. What came is compared with the file of key @key. */
static int64_t read_one(struct load_engine *e, const char *name, uint64_t off, uint64_t len,
			uint64_t key)
{
	struct load_request *r = request_for(name, off, len);
	int64_t result;

	load_engine_submit(e, r);
	load_engine_kick(e);
	assert_int_equal(load_engine_pending(e), 1);
	assert_ptr_equal(reap_one(e), r);
	assert_int_equal(load_engine_pending(e), 0);
	result = r->result;
	assert_true(result <= (int64_t)len + 1);
	for (int64_t i = 0; i < result; i++)
		if (r->data[i] != byte_at(key, off + (uint64_t)i))
			fail_msg("%s: byte %" PRId64 " from %" PRIu64 " on is wrong", name, i, off);
	request_free(r);
	return result;
}

/* Read until the engine has found that one thread is not enough, as it is told, and has two. */
static void have_help(struct load_engine *e)
{
	uint64_t end = clock_now() + UINT64_C(20000000000);

	busy = true;
	helped = 0;
	while (helped == 0 && !strstr(detail_of(e), "with calls") && clock_now() < end) {
		for (int i = 0; i < 40; i++)
			load_engine_submit(e, request_for("d/4096", 0, 4096));
		while (load_engine_pending(e) > 0)
			request_free(reap_one(e));
	}
	assert_true(clock_now() < end);
}

#define FOR_ALL_WAYS(w, e, in_flight)                                     \
	for (const struct way *w = ways; w < ways + ARRAY_LEN(ways); w++) \
		for (struct load_engine *e = engine_of(w, in_flight); e;  \
		     e = load_engine_free(e), fault_disarm(&openat2_fault), busy = false)

/* ---- What is there ---- */

static void files_of_every_size_come_byte_by_byte(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, 4)
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		assert_int_equal(read_one(e, size_name(sizes[i]), 0, sizes[i], sizes[i]), sizes[i]);
}

static void any_stretch_of_a_file_can_be_read(void **state)
{
	static const uint64_t offs[] = { 0,     1,     511,    512,    4095,   4096,   4097,
					 65536, 65537, 290000, 294912, 299999, 300000, 400000 };
	static const uint64_t lens[] = { 0, 1, 4094, 4095, 4096, 4097, 65536 };

	(void)state;
	FOR_ALL_WAYS(w, e, 4)
	for (size_t i = 0; i < ARRAY_LEN(offs); i++)
		for (size_t j = 0; j < ARRAY_LEN(lens); j++) {
			uint64_t left = offs[i] < 300000 ? 300000 - offs[i] : 0;
			int64_t n = read_one(e, "d/300000", offs[i], lens[j], 300000);

			/* One more only says that the file goes on. */
			assert_int_equal(n, u64_min(left, lens[j] + 1));
		}
}

static void a_file_that_has_grown_or_shrunk_is_seen(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, 4)
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t size = sizes[i];
		const char *name = size_name(size);

		if (size > 0)
			assert_int_equal(read_one(e, name, 0, size - 1, size), size);
		if (size > 5000)
			assert_int_equal(read_one(e, name, 0, size - 5000, size), size - 4999);
		assert_int_equal(read_one(e, name, 0, size + 1, size), size);
		assert_int_equal(read_one(e, name, 0, size + 4096, size), size);
		assert_int_equal(read_one(e, name, 0, size + 100000, size), size);
	}
}

static void short_and_interrupted_reads_are_continued(void **state)
{
	(void)state;
	other_fault.limit = 4608;
	FOR_ALL_WAYS(w, e, 1)
	{
		if (w->kind == LOAD_THREADS)
			fault_arm(&other_fault, FAULT_PREAD, 1, 100, EINTR);
		assert_int_equal(read_one(e, "d/8192", 0, 8192, 8192), 8192);
		assert_int_equal(read_one(e, "d/300000", 100, 9000, 300000), 9000 + 1);
		assert_int_equal(read_one(e, "d/8191", 0, 20000, 8191), 8191);
		fault_disarm(&other_fault);
	}
}

/* The ring's reads cannot be cut short from here: what both engines do then is tested by itself. */
static void direct_reads_go_on_where_they_are_aligned(void **state)
{
	static const struct load_engine direct = { .direct = true,
						   .posix = (struct store_posix *)8 };
	struct load_request r = { .off = 5000, .len = 20000, .buf = NULL };
	struct load_piece p = load_next_piece(&direct, &r);

	(void)state;
	assert_int_equal(p.off, 4096);
	assert_int_equal(p.len, 24576);
	assert_true(load_took(&direct, &r, 512));
	p = load_next_piece(&direct, &r);
	assert_int_equal(p.off, 4096);
	assert_true(load_took(&direct, &r, 4096 + 512));
	p = load_next_piece(&direct, &r);
	assert_int_equal(p.off, 8192);
	assert_int_equal(p.len, 20480);
	assert_false(load_took(&direct, &r, 512)); /* nothing new: the end of the file */
	assert_int_equal(r.got, 4608);
	assert_false(load_took(&direct, &r, 20480));
	assert_int_equal(r.got, 24576);
	r = (struct load_request){ .len = UINT64_C(5) << 30, .got = UINT64_C(1) << 30 };
	p = load_next_piece(&direct, &r);
	assert_int_equal(p.len, 1u << 30);
	assert_int_equal(p.off, 1u << 30);
}

/* ---- What is not there ---- */

static void check_error(struct load_engine *e, const char *name, int want, const char *words)
{
	struct load_request *r = request_for(name, 0, 100);
	struct shoal_err err = { "" };

	load_engine_submit(e, r);
	assert_ptr_equal(reap_one(e), r);
	assert_int_equal(r->result, want);
	assert_int_equal(load_engine_why(e, r, &err), want);
	if (!strstr(err.msg, words))
		fail_msg("'%s' does not say '%s'", err.msg, words);
	request_free(r);
}

static void make_special(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	char path[100];

	snprintf(path, sizeof(path), "%s/pipe", dir);
	assert_int_equal(mkfifo(path, 0666), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", dir);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	close(s);
	snprintf(path, sizeof(path), "%s/nowhere", dir);
	assert_int_equal(symlink("gone", path), 0);
	snprintf(path, sizeof(path), "%s/loop", dir);
	assert_int_equal(symlink("loop", path), 0);
}

static void what_cannot_be_read_says_why(void **state)
{
	char *too_long = allocate(SHOAL_NAME_MAX + 2, 1);

	(void)state;
	make_special();
	memset(too_long, 'x', SHOAL_NAME_MAX + 1);
	FOR_ALL_WAYS(w, e, 4)
	{
		check_error(e, "gone", -ENOENT, "'gone' does not exist");
		check_error(e, "nowhere", -ENOENT, "'nowhere' does not exist");
		check_error(e, "d", -EISDIR, "'d' is a directory");
		check_error(e, "d/1/x", -ENOTDIR, "cannot read 'd/1/x'");
		check_error(e, "pipe", -ESPIPE, "not a regular file");
		check_error(e, "socket", -ESPIPE, "not a regular file");
		check_error(e, "loop", -ELOOP, "cannot read 'loop'");
		check_error(e, "", -EINVAL, "cannot read ''");
		check_error(e, "/etc/passwd", -EINVAL, "cannot read");
		check_error(e, "d/../d/1", -EINVAL, "cannot read");
		check_error(e, too_long, -ENAMETOOLONG, "cannot read");
		assert_int_equal(read_one(e, "d/1", 0, 1, 1), 1); /* and goes on */
	}
	free(too_long);
}

/* A name of 4096 bytes is one too long for a path: the directory is opened first. */
static void the_longest_names_are_read(void **state)
{
	char name[SHOAL_NAME_MAX + 1] = "";

	(void)state;
	for (size_t i = 0; i + 4 < SHOAL_NAME_MAX; i += 2)
		memcpy(name + i, "./", 3);
	memcpy(name + SHOAL_NAME_MAX - 4, ".//", 3);
	name[0] = 'd';
	memset(name + SHOAL_NAME_MAX - 1, '1', 1);
	assert_int_equal(strlen(name), SHOAL_NAME_MAX);
	FOR_ALL_WAYS(w, e, 4)
	assert_int_equal(read_one(e, name, 0, 1, 1), 1);
}

static void what_may_not_be_read_says_so(void **state)
{
	char path[100];

	(void)state;
	put("secret", 1, 10);
	snprintf(path, sizeof(path), "%s/secret", dir);
	assert_int_equal(chmod(path, 0), 0);
	FOR_ALL_WAYS(w, e, 4)
	{
		uid_t me = geteuid();

		if (me == 0)
			assert_int_equal(seteuid(65534), 0);
		check_error(e, "secret", -EACCES, "cannot read 'secret'");
		if (me == 0)
			assert_int_equal(seteuid(me), 0);
	}
}

static volatile int leased_fd;

static void give_lease_back(int signal_number)
{
	(void)signal_number;
	fcntl(leased_fd, F_SETLEASE, F_UNLCK);
}

/* Somebody has it for itself, and must be asked: an open that does not wait cannot do that. */
static void a_leased_file_is_waited_for(void **state)
{
	struct sigaction action = { .sa_handler = give_lease_back }, before;
	char path[100];

	(void)state;
	put("leased", 3, 10);
	snprintf(path, sizeof(path), "%s/leased", dir);
	assert_int_equal(sigaction(SIGIO, &action, &before), 0);
	FOR_ALL_WAYS(w, e, 4)
	{
		struct load_request *r = request_for("leased", 0, 10);
		int n = 0;

		leased_fd = open(path, O_RDWR | O_CLOEXEC);
		if (fcntl(leased_fd, F_SETLEASE, F_WRLCK) < 0)
			print_message("not tested here: leases\n");
		load_engine_submit(e, r);
		while (n == 0) /* the signal ends the first */
			n = load_engine_reap(e, &r, 1, 60000000, NULL);
		assert_int_equal(n, 1);
		assert_int_equal(r->result, 10);
		request_free(r);
		close(leased_fd);
	}
	sigaction(SIGIO, &before, NULL);
}

static void *wake_later(void *arg)
{
	wait_until_others_sleep();
	load_engine_wake(arg);
	return NULL;
}

/* While it waits for a read that does not end: its file belongs to somebody who keeps it. */
static void the_owner_can_be_woken(void **state)
{
	struct sigaction action = { .sa_handler = SIG_IGN }, before;
	char path[100];

	(void)state;
	put("leased", 3, 10);
	snprintf(path, sizeof(path), "%s/leased", dir);
	assert_int_equal(sigaction(SIGIO, &action, &before), 0);
	FOR_ALL_WAYS(w, e, 4)
	{
		struct load_request *r = request_for("leased", 0, 10), *done = NULL;
		int fd = open(path, O_RDWR | O_CLOEXEC), n = 0;
		uint64_t start = clock_now();
		pthread_t thread;

		if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
			print_message("not tested here: leases\n");
		load_engine_submit(e, r);
		for (int i = 0; i < 3; i++) { /* before it waits, while it does, and again */
			assert_int_equal(pthread_create(&thread, NULL, wake_later, e), 0);
			if (i == 0)
				pthread_join(thread, NULL);
			n += load_engine_reap(e, &done, 1, 20000000, NULL);
			if (i > 0)
				pthread_join(thread, NULL);
		}
		assert_int_equal(n, 0);
		assert_true(clock_now() - start < UINT64_C(15000000000));
		fcntl(fd, F_SETLEASE, F_UNLCK);
		while (n == 0)
			n = load_engine_reap(e, &done, 1, 60000000, NULL);
		assert_int_equal(n, 1);
		assert_int_equal(r->result, 10);
		request_free(r);
		close(fd);
	}
	sigaction(SIGIO, &before, NULL);
}

/* ---- What is in the page cache ---- */

/* Three ways to ask, and what they should say; 0 bytes are all from there on. */
static void check_pages(int fd, uint64_t off, uint64_t len, int64_t want)
{
	assert_int_equal(load_cached_pages(fd, off, len), want);
	assert_int_equal(load_resident_pages(fd, off, len), want);
	fail_all(&cachestat_fault, FAULT_CACHESTAT, ENOSYS);
	assert_int_equal(load_cached_pages(fd, off, len), want);
	fault_disarm(&cachestat_fault);
}

static void pages_in_the_cache_are_counted_on_old_kernels_too(void **state)
{
	char path[100];
	int fd;

	(void)state;
	put("paged", 3, 9000001); /* more than mincore is asked about at once */
	snprintf(path, sizeof(path), "%s/paged", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fsync(fd), 0);
	check_pages(fd, 0, 9000001, 2198);
	check_pages(fd, 0, 0, 2198);
	check_pages(fd, 0, 4096, 1);
	check_pages(fd, 0, 4097, 2);
	check_pages(fd, 8192, 8192, 2);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (load_cached_pages(fd, 0, 0) == 0)
		check_pages(fd, 0, 9000001, 0);
	else
		print_message("not tested here: pages stay in the cache\n");
	close(fd);
}

/* The kernel says of others' files that all of them is there; it is not to be believed. */
static void of_others_files_the_page_cache_is_not_known(void **state)
{
	struct load_cached c;
	struct store *store;
	char path[100];
	int fd;

	(void)state;
	if (geteuid() != 0) {
		print_message("not tested here: other users\n");
		return;
	}
	put("others", 3, 9000);
	snprintf(path, sizeof(path), "%s/others", dir);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(store_open(dir, NULL, &store, NULL), 0);
	load_cached_init(&c, store, false);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(seteuid(65534), 0);
	fail_all(&cachestat_fault, FAULT_CACHESTAT, ENOSYS);
	assert_int_equal(load_cached_pages(fd, 0, 0), -EPERM);
	load_cached_look(&c, "others", 0, 9000);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(c.nr_pages, 0);
	assert_false(c.supported);
	fault_disarm(&cachestat_fault);
	close(fd);
	store_close(store);
}

/* One sample of many is looked at, of its own size where the catalog has none, each large one. */
static void what_is_read_is_looked_at_before(void **state)
{
	struct store *store;
	struct load_cached c;

	(void)state;
	put("looked", 3, 9000);
	assert_int_equal(store_open(dir, NULL, &store, NULL), 0);
	load_cached_init(&c, store, false);
	for (int i = 0; i < 1000; i++)
		load_cached_look(&c, "looked", 0, 9000);
	assert_in_range(c.nr_pages, 3 * 100, 3 * 150); /* a good part of few samples */
	assert_int_equal(c.nr_cached, c.nr_pages);
	for (int i = 0; i < 1000000; i++)
		load_cached_look(&c, "looked", 0, 9000);
	assert_in_range(c.nr_pages, 3 * 3000, 3 * 8000); /* and a small one of many */
	load_cached_clear(&c);
	load_cached_look(&c, "looked", 0, SHOAL_SIZE_UNKNOWN);
	assert_int_equal(c.nr_pages, 3);
	assert_int_equal(c.nr_cached, 3);
	load_cached_clear(&c);
	for (int i = 0; i < 4; i++)
		load_cached_look(&c, "looked", 0, 1u << 30); /* as the catalog says */
	assert_int_equal(c.nr_pages, 4 * (1u << 18));        /* all of it, not the beginning */
	assert_int_equal(c.nr_cached, 4 * 3);
	load_cached_look(&c, "looked", 4096, 4096); /* it may be there because of read-ahead */
	assert_int_equal(c.nr_pages, 4 * (1u << 18));
	load_cached_init(&c, store, true); /* past the cache: nothing comes from there */
	load_cached_look(&c, "looked", 0, 9000);
	assert_int_equal(c.nr_pages, 1);
	assert_int_equal(c.nr_cached, 0);
	store_close(store);
}

static void a_request_that_makes_no_sense_comes_back(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, 4)
	{
		struct load_request *r = request_for("d/4096", 0, 4096);

		r->cap -= LOAD_ALIGN;
		load_engine_submit(e, r);
		assert_int_equal(reap_one(e)->result, -EINVAL);
		r->cap += LOAD_ALIGN;
		r->buf++;
		load_engine_submit(e, r);
		assert_int_equal(reap_one(e)->result, -EINVAL);
		r->buf--;
		r->off = UINT64_MAX;
		load_engine_submit(e, r);
		assert_int_equal(reap_one(e)->result, -EOVERFLOW);
		r->off = 0;
		load_engine_submit(e, r);
		assert_int_equal(reap_one(e)->result, 4096);
		request_free(r);
	}
}

/* ---- Many ---- */

#define NR_MANY 1500

/* All kinds of files by turns, missing ones too, @ahead submitted at once: each comes back once. */
static void read_many(struct load_engine *e, unsigned ahead)
{
	struct load_request *done[7];
	unsigned submitted = 0, reaped = 0;

	while (reaped < NR_MANY) {
		int n;

		for (; submitted < NR_MANY && load_engine_pending(e) < ahead; submitted++) {
			uint64_t size = sizes[submitted % 9];
			const char *name = submitted % 11 == 0 ? "gone" : size_name(size);

			load_engine_submit(e, request_for(name, 0, size));
		}
		load_engine_kick(e);
		n = load_engine_reap(e, done, ARRAY_LEN(done), 60000000, NULL);
		assert_true(n > 0);
		for (int i = 0; i < n; i++) {
			struct load_request *r = done[i];
			bool gone = strcmp(r->name, "gone") == 0;

			assert_int_equal(r->result, gone ? -ENOENT : (int64_t)r->len);
			for (int64_t j = 0; j<r->result; j += r->len> 9000 ? 97 : 1)
				assert_int_equal(r->data[j], byte_at(r->len, (uint64_t)j));
			request_free(r); /* a second time would be seen by ASan */
		}
		reaped += (unsigned)n;
	}
	assert_int_equal(reaped, submitted);
	assert_int_equal(load_engine_pending(e), 0);
	assert_int_equal(load_engine_reap(e, done, 1, 1000000, NULL), 0);
}

static void thousands_of_requests_come_back_once_each(void **state)
{
	static const unsigned in_flight[] = { 1, 2, 64 }, ahead[] = { 1, 64, 300 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(in_flight); i++)
		FOR_ALL_WAYS(w, e, in_flight[i])
	read_many(e, ahead[(i + (size_t)(w - ways)) % ARRAY_LEN(ahead)]);
}

/* By the clock the owner's thread was asleep: another would not be of use. */
static void an_owner_that_is_not_busy_reads_alone(void **state)
{
	struct load_engine_options o = { .kind = LOAD_AUTO, .store = tree, .in_flight = 64 };
	struct load_engine *e = NULL;

	(void)state;
	assert_int_equal(load_engine_new(&o, &e, NULL), 0);
	helped = 0;
	if (strcmp(load_engine_name(e), "uring") == 0) {
		limit_threads(0);
		for (int i = 0; i < 20; i++)
			read_many(e, 64);
		assert_int_equal(thread_fault.nr, 0); /* none was requested */
		assert_int_equal(helped, 0);
	}
	load_engine_free(e);
}

static void help_that_cannot_be_had_is_done_without(void **state)
{
	struct load_engine_options o = { .kind = LOAD_AUTO, .store = tree, .in_flight = 64 };

	(void)state;
	for (int missing = 0; missing < 2; missing++) {
		struct load_engine *e = NULL;

		assert_int_equal(load_engine_new(&o, &e, NULL), 0);
		busy = strcmp(load_engine_name(e), "uring") == 0;
		fault_disarm(&thread_fault);
		if (missing == 0)
			limit_threads(0);
		fail_all(&ring_fault, FAULT_RING, missing == 1 ? ENOMEM : 0);
		for (int i = 0; i < 5; i++)
			read_many(e, 64);
		if (missing == 0 && busy)
			assert_int_equal(thread_fault.nr, 1); /* requested once, and not again */
		fault_disarm(&ring_fault);
		busy = false;
		load_engine_free(e);
	}
}

/* Descriptors that are free under the limit. */
static void limit_descriptors(unsigned nr, struct rlimit *ret_before)
{
	struct rlimit now;
	int fd = fcntl(0, F_DUPFD, 0);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
	now = *ret_before;
	now.rlim_cur = (rlim_t)fd + nr; /* the lowest that is free: all below are taken */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void few_descriptors_make_it_slow_and_not_wrong(void **state)
{
	(void)state;
	for (unsigned nr = 1; nr < 6; nr += 2)
		FOR_ALL_WAYS(w, e, 64)
		{
			struct rlimit before;

			limit_descriptors(nr, &before);
			read_many(e, 200);
			assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		}
}

static void no_descriptor_at_all_is_an_error_of_each_request(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, 8)
	{
		struct rlimit before;

		limit_descriptors(0, &before);
		for (int i = 0; i < 50; i++)
			load_engine_submit(e, request_for("d/1", 0, 1));
		for (int i = 0; i < 50; i++) {
			struct load_request *r = reap_one(e);

			assert_int_equal(r->result, -EMFILE);
			request_free(r);
		}
		check_error(e, "d/1", -EMFILE, "ulimit -n");
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(read_one(e, "d/1", 0, 1, 1), 1);
	}
}

/* The error of one request that could not be opened. */
static void fail_to_open(struct load_engine *e)
{
	struct rlimit before;

	limit_descriptors(0, &before);
	check_error(e, "d/1", -EMFILE, "ulimit -n");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void threads_that_lacked_descriptors_read_again_later(void **state)
{
	static const struct {
		enum load_engine_kind kind;
		const char *some, *all;
	} row[] = {
		{ LOAD_THREADS, "1 of at most 3 threads with calls", "3 threads with calls" },
		{ LOAD_AUTO, "0 of at most 3 threads with calls", "3 threads with calls" },
		{ LOAD_URING, "1 of at most 3 threads with rings", "3 threads with rings" },
	};

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &stopped);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct load_engine_options o = {
			.kind = row[i].kind, .store = tree, .in_flight = 8, .threads = 3
		};
		struct load_engine *e = NULL;

		if (load_engine_new(&o, &e, NULL) == -ENOTSUP)
			continue;
		if (row[i].kind == LOAD_AUTO && !strstr(detail_of(e), "registered"))
			goto next; /* without rings here */
		for (int again = 0; again < 3; again++) {
			fail_to_open(e);
			passed += again > 0; /* the rest takes longer than the one before */
			assert_int_equal(read_one(e, "d/4097", 0, 4097, 4097), 4097);
			assert_non_null(strstr(detail_of(e), row[i].some));
			assert_non_null(strstr(detail_of(e), "too few descriptors"));
			passed += 1 + again * 3;
			assert_int_equal(read_one(e, "d/4097", 0, 4097, 4097), 4097);
			if (strncmp(detail_of(e), row[i].all, strlen(row[i].all)) != 0)
				fail_msg("'%s' does not begin with '%s'", detail_of(e), row[i].all);
			assert_null(strstr(detail_of(e), "too few descriptors"));
		}
		read_many(e, 200);
	next:
		load_engine_free(e);
	}
}

/* As file systems in user space may have it. It says nothing about the descriptors here. */
static void a_read_that_fails_for_want_of_descriptors_is_an_error_like_any(void **state)
{
	struct load_engine_options o = {
		.kind = LOAD_THREADS, .store = tree, .in_flight = 4, .threads = 2
	};
	struct load_engine *e = NULL;
	size_t before;

	(void)state;
	assert_int_equal(load_engine_new(&o, &e, NULL), 0);
	assert_int_equal(read_one(e, "d/4096", 0, 4096, 4096), 4096);
	before = count_open();
	for (int i = 0; i < 3; i++) {
		fault_arm(&other_fault, FAULT_PREAD, 1, FAULT_ONCE, EMFILE);
		assert_int_equal(read_one(e, "d/4096", 0, 4096, 4096), -EMFILE);
		assert_int_equal(other_fault.nr, 1); /* it was not retried */
	}
	fault_disarm(&other_fault);
	assert_int_equal(count_open(), before);
	assert_null(strstr(detail_of(e), "too few descriptors"));
	assert_int_equal(read_one(e, "d/4096", 0, 4096, 4096), 4096);
	load_engine_free(e);
}

static void an_engine_is_freed_with_requests_in_flight(void **state)
{
	struct load_request *r[50];

	(void)state;
	for (unsigned round = 0; round < 12; round++)
		FOR_ALL_WAYS(w, e, 16)
		{
			struct load_request *some[5];
			int n = 0;

			for (size_t i = 0; i < ARRAY_LEN(r); i++) {
				r[i] = request_for("d/300000", 0, 300000);
				load_engine_submit(e, r[i]);
			}
			if (round % 2)
				load_engine_kick(e);
			if (round % 3)
				n = load_engine_reap(e, some, 5, 1000000, NULL);
			assert_true(n >= 0);
			e = load_engine_free(e);
			/* Nobody writes there any more, or the next test's memory is spoilt. */
			for (size_t i = 0; i < ARRAY_LEN(r); i++)
				request_free(r[i]);
			assert_int_equal(count_open(), open_before);
			fault_disarm(&openat2_fault);
			busy = false;
			break;
		}
	assert_null(load_engine_free(NULL));
}

/* ---- Files that are shared ---- */

#define PART 4096u

/* Part @i of the file of 1 MiB, or of whatever took its name. */
static struct load_request *part_of(struct load_file *f, uint64_t i)
{
	struct load_request *r = request_for("d/shared", i * PART, PART);

	r->inside = true;
	r->file = f;
	return r;
}

static void check_part(struct load_request *r, uint64_t key)
{
	assert_int_equal(r->result, PART);
	for (uint64_t k = 0; k < PART; k++)
		if (r->data[k] != byte_at(key, r->off + k))
			fail_msg("byte %" PRIu64 " from %" PRIu64 " on is wrong", k, r->off);
	request_free(r);
}

/* Another file takes the name of the first: who still reads that has it open. */
static void requests_that_share_a_file_read_it_though_it_is_replaced(void **state)
{
	char path[100], other[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/d/shared", dir);
	snprintf(other, sizeof(other), "%s/d/other", dir);
	FOR_ALL_WAYS(w, e, 4)
	{
		struct load_file f;
		int fd;

		put("d/shared", 1, 1 << 20);
		put("d/other", 2, 1 << 20);
		load_file_init(&f, 10);
		load_engine_submit(e, part_of(&f, 0));
		check_part(reap_one(e), 1);
		fd = f.fd;
		assert_true(fd >= 0);
		assert_int_equal(rename(other, path), 0);
		assert_int_equal(read_one(e, "d/shared", 0, PART, 2), PART + 1); /* on its own */
		for (uint64_t i = 1; i < 10; i++) {
			assert_int_equal(f.fd, fd);
			load_engine_submit(e, part_of(&f, i));
			if (i % 3 == 0) /* three at once */
				for (int k = 0; k < 3; k++)
					check_part(reap_one(e), 1);
		}
		assert_int_equal(f.left, 0);
		assert_int_equal(f.fd, -1);
	}
}

/* Those that begin before it is open open it themselves, and all that was opened is closed. */
static void many_requests_share_a_file_at_once(void **state)
{
	(void)state;
	put("d/shared", 1, 1 << 20);
	for (unsigned nr = 1; nr <= 256; nr *= 2)
		FOR_ALL_WAYS(w, e, 64)
		{
			struct load_file f;

			load_file_init(&f, nr);
			for (unsigned i = 0; i < nr; i++)
				load_engine_submit(e, part_of(&f, i));
			for (unsigned i = 0; i < nr; i++)
				check_part(reap_one(e), 1);
			assert_int_equal(f.left, 0);
			assert_int_equal(f.fd, -1);
		}
}

static void what_goes_wrong_with_a_shared_file_is_an_error_of_each(void **state)
{
	char path[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/d/shared", dir);
	FOR_ALL_WAYS(w, e, 4)
	{
		struct load_request *bad;
		struct load_file f;

		unlink(path);
		load_file_init(&f, 4);
		for (unsigned i = 0; i < 3; i++)
			load_engine_submit(e, part_of(&f, i));
		for (unsigned i = 0; i < 3; i++) {
			struct load_request *r = reap_one(e);

			assert_int_equal(r->result, -ENOENT);
			request_free(r);
		}
		put("d/shared", 1, PART);
		load_engine_submit(e, part_of(&f, 0)); /* it is there after all */
		check_part(reap_one(e), 1);
		assert_int_equal(f.fd, -1);
		load_file_init(&f, 3); /* it ends before the second part; the last makes no sense */
		load_engine_submit(e, part_of(&f, 0));
		check_part(reap_one(e), 1);
		load_engine_submit(e, part_of(&f, 1));
		bad = reap_one(e);
		assert_int_equal(bad->result, 0);
		bad->buf++;
		load_engine_submit(e, bad);
		assert_ptr_equal(reap_one(e), bad);
		assert_int_equal(bad->result, -EINVAL);
		bad->buf--;
		request_free(bad);
		assert_int_equal(f.left, 0);
		assert_int_equal(f.fd, -1);
	}
}

static void shared_files_get_along_with_few_descriptors(void **state)
{
	(void)state;
	put("d/shared", 1, 1 << 20);
	for (unsigned nr = 1; nr < 4; nr++)
		FOR_ALL_WAYS(w, e, 16)
		{
			struct load_file f[8];
			struct rlimit before;

			limit_descriptors(nr, &before);
			for (size_t k = 0; k < ARRAY_LEN(f); k++) {
				load_file_init(&f[k], 5);
				for (unsigned i = 0; i < 5; i++)
					load_engine_submit(e, part_of(&f[k], i));
			}
			for (size_t i = 0; i < 5 * ARRAY_LEN(f); i++)
				check_part(reap_one(e), 1);
			assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
			for (size_t k = 0; k < ARRAY_LEN(f); k++)
				assert_true(f[k].fd == -1 && f[k].left == 0);
		}
}

static void a_shared_file_that_is_given_up_is_closed(void **state)
{
	(void)state;
	put("d/shared", 1, 1 << 20);
	FOR_ALL_WAYS(w, e, 16)
	{
		struct load_file f;
		size_t nr;

		load_file_init(&f, 3);
		load_engine_submit(e, part_of(&f, 0));
		check_part(reap_one(e), 1);
		nr = count_open();
		load_file_release(&f);
		assert_int_equal(count_open(), nr - 1);
		load_file_release(&f);
		assert_int_equal(count_open(), nr - 1);
	}
}

static void *use_engine(void *arg)
{
	read_many(arg, 100);
	return load_engine_free(arg);
}

static void an_engine_belongs_to_the_thread_that_first_submits(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, 16)
	{
		pthread_t thread;

		if (w->helped)
			continue; /* it was used here to have help */
		assert_int_equal(pthread_create(&thread, NULL, use_engine, e), 0);
		pthread_join(thread, NULL);
		fault_disarm(&openat2_fault);
		break;
	}
}

/* ---- What is chosen ---- */

static struct load_engine *engine_new(const struct load_engine_options *o, int want,
				      const char *words)
{
	struct load_engine *e = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(load_engine_new(o, &e, &err), want);
	if (want < 0) {
		assert_null(e);
		if (!strstr(err.msg, words))
			fail_msg("'%s' does not say '%s'", err.msg, words);
	} else if (!strstr(detail_of(e), words)) {
		fail_msg("'%s' does not say '%s'", detail_of(e), words);
	}
	return e;
}

static void without_io_uring_there_are_threads_and_it_is_said(void **state)
{
	static const struct {
		int rc;
		const char *words;
	} row[] = {
		{ -EPERM, "io_uring is not permitted here" },
		{ -ENOSYS, "this kernel or container does not have io_uring" },
		{ -ENOMEM, "RLIMIT_MEMLOCK" },
		{ -EINVAL, "io_uring cannot be set up: Invalid argument" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct load_engine_options o = { .store = tree, .in_flight = 3 };
		struct load_engine *e;

		fail_all(&ring_fault, FAULT_RING, -row[i].rc);
		e = engine_new(&o, 0, row[i].words);
		assert_string_equal(load_engine_name(e), "threads");
		assert_non_null(strstr(detail_of(e), "threads with calls on 4 cores"));
		assert_int_equal(read_one(e, "d/4097", 0, 4097, 4097), 4097);
		load_engine_free(e);
		o.kind = LOAD_URING;
		engine_new(&o, -ENOTSUP, row[i].words);
	}
}

static void buffers_that_cannot_be_registered_are_used_all_the_same(void **state)
{
	struct load_engine_options o = { .kind = LOAD_URING, .store = tree, .in_flight = 3 };
	struct load_engine *e = engine_of(&ways[0], 1);
	struct load_request *r = request_for("d/4097", 0, 4097);
	uint8_t *pool = r->buf;

	(void)state;
	for (int i = 0; e && i < 4; i++) {
		struct load_engine *one;

		fail_all(&other_fault, FAULT_REGISTER, i == 1 ? ENOMEM : i == 2 ? EOPNOTSUPP : 0);
		o.pool = i < 3 ? pool : NULL;
		o.pool_len = r->cap;
		o.direct = false;
		one = engine_new(&o, 0,
				 i == 0   ? "registered buffers"
				 : i == 1 ? "not registered: RLIMIT_MEMLOCK"
					  : "not registered");
		/* In the pool, and outside of it. */
		load_engine_submit(one, r);
		assert_int_equal(reap_one(one)->result, 4097);
		for (uint64_t j = 0; j < 4097; j++)
			assert_int_equal(r->data[j], byte_at(4097, j));
		assert_int_equal(read_one(one, "d/8192", 0, 8192, 8192), 8192);
		load_engine_free(one);
	}
	request_free(r);
	load_engine_free(e);
}

static void kernels_without_cached_opens_open_in_the_ring(void **state)
{
	struct load_engine *e;

	(void)state;
	for (int i = 0; i < 3; i++) {
		fail_all(&openat2_fault, FAULT_OPENAT2, i == 0 ? ENOSYS : i == 1 ? EINVAL : EPERM);
		e = NULL;
		if (load_engine_new(&(struct load_engine_options){ .kind = LOAD_URING,
								   .store = tree,
								   .in_flight = 9 },
				    &e, NULL) == 0)
			read_many(e, 30);
		load_engine_free(e);
	}
}

static void options_that_make_no_sense_are_refused(void **state)
{
	struct load_engine_options o = { .store = tree };
	struct store *null = NULL;

	(void)state;
	assert_int_equal(store_open("null:size=10", NULL, &null, NULL), 0);
	engine_new(&o, -EINVAL, "0 requests in flight: there must be 1 to 8192");
	o.in_flight = LOAD_IN_FLIGHT_MAX + 1;
	engine_new(&o, -EINVAL, "8193 requests");
	o = (struct load_engine_options){ .kind = LOAD_URING, .store = null, .in_flight = 1 };
	engine_new(&o, -ENOTSUP, "io_uring reads files, but a null store has none");
	o = (struct load_engine_options){ .store = null, .in_flight = 1, .direct = true };
	load_engine_free(engine_new(&o, 0, "no O_DIRECT: a null store has no files"));
	store_close(null);
}

static void the_most_in_flight_works(void **state)
{
	(void)state;
	FOR_ALL_WAYS(w, e, LOAD_IN_FLIGHT_MAX)
	read_many(e, 500);
}

static void file_systems_that_refuse_direct_reads_are_named(void **state)
{
	struct load_engine_options o = { .in_flight = 1, .direct = true };
	struct shoal_err err = { "" };
	struct load_engine *e = NULL;
	int rc;

	(void)state;
	/* Cannot be written to, has files of no size, and has no O_DIRECT. */
	if (store_open("/proc/self", NULL, &o.store, NULL) < 0)
		skip();
	for (unsigned kind = LOAD_URING; kind <= LOAD_THREADS; kind++) {
		o.kind = (enum load_engine_kind)kind;
		rc = load_engine_new(&o, &e, &err);
		if (rc < 0) {
			assert_int_equal(rc, -ENOTSUP);
			continue;
		}
		check_error(e, "status", -EOPNOTSUPP, "does not support O_DIRECT");
		check_error(e, "task", -EISDIR, "is a directory");
		e = load_engine_free(e);
	}
	store_close(o.store);
}

static void threads_that_do_not_start_are_done_without(void **state)
{
	struct load_engine_options o = { .kind = LOAD_THREADS, .store = tree, .in_flight = 5 };
	struct load_engine *e;

	(void)state;
	limit_threads(1);
	e = engine_new(
		&o, 0,
		"1 thread with calls on 4 cores: reads do not wait, no more could be started");
	read_many(e, 30);
	load_engine_free(e);
	limit_threads(0);
	engine_new(&o, -EAGAIN, "cannot start a reading thread");
}

static void no_memory_is_an_error_and_nothing_is_left(void **state)
{
	(void)state;
	for (unsigned kind = LOAD_AUTO; kind <= LOAD_THREADS; kind++) {
		struct load_engine_options o = { .store = tree, .in_flight = 1 };

		o.kind = (enum load_engine_kind)kind;
		fault_arm(&other_fault, FAULT_CALLOC, 1, FAULT_ONCE, ENOMEM);
		engine_new(&o, -ENOMEM, "out of memory");
		assert_int_equal(other_fault.fired, 1);
		assert_int_equal(count_open(), open_before);
	}
}

static void one_thread_with_a_ring_is_the_owner(void **state)
{
	struct load_engine_options o = {
		.kind = LOAD_URING, .store = tree, .in_flight = 8, .threads = 1
	};
	struct load_engine *e = NULL;

	(void)state;
	if (load_engine_new(&o, &e, NULL) == -ENOTSUP)
		return;
	limit_threads(0);
	busy = true;
	helped = 0;
	for (int i = 0; i < 5; i++)
		read_many(e, 64);
	assert_int_equal(thread_fault.nr, 0); /* none was requested */
	assert_int_equal(helped, 0);
	assert_null(strstr(detail_of(e), "thread"));
	load_engine_free(e);
}

/* What a thread with a descriptor table of its own must not do is known from outside the library:
 * a preloaded library that follows descriptors, or files that are flushed when a copy is closed. */
static void threads_share_the_table_of_files_if_others_depend_on_it(void **state)
{
	static const struct {
		const char *preloaded;
		int type, flags;
		bool own;
	} row[] = {
		{ NULL, 0, O_WRONLY, true },
		{ "", 0, O_WRONLY, true },
		{ "/usr/lib/libjemalloc.so.2", 0, O_WRONLY, true },
		{ "/opt/libdarshan.so", 0, O_WRONLY, false },
		{ NULL, 0x65735546, O_WRONLY, false }, /* FUSE */
		{ NULL, 0x6969, O_RDWR, false },       /* NFS */
		{ NULL, 0x6969, O_RDONLY, true },
	};
	struct load_engine_options o = {
		.kind = LOAD_THREADS, .in_flight = 4, .threads = 2, .own_files = true
	};
	char path[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/d/1", dir);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct load_engine *e = NULL;
		int fd = open(path, row[i].flags | O_CLOEXEC);
		bool own;

		assert_true(fd >= 0);
		typed_fd = fd;
		type_of_fd = row[i].type;
		if (row[i].preloaded)
			setenv("LD_PRELOAD", row[i].preloaded, 1);
		/* What is open after the root is not copied at all. */
		assert_int_equal(store_open(dir, NULL, &o.store, NULL), 0);
		assert_int_equal(load_engine_new(&o, &e, NULL), 0);
		unsetenv("LD_PRELOAD");
		read_many(e, 50);
		own = strstr(detail_of(e), "with a table of open files");
		load_engine_free(e);
		store_close(o.store);
		close(fd);
		if (i == 0 && !own) {
			print_message("not tested here: threads have no tables of their own\n");
			return;
		}
		if (own != row[i].own)
			fail_msg("row %zu: %d", i, own);
	}
}

/* ---- Other stores ---- */

static void a_null_store_is_read_by_threads(void **state)
{
	struct load_engine_options o = { .in_flight = 4 };
	uint8_t want[5000];
	struct load_engine *e;

	(void)state;
	assert_int_equal(store_open("null:size=5000", NULL, &o.store, NULL), 0);
	e = engine_new(&o, 0, "4 threads");
	assert_int_equal(store_read(o.store, "a/b", 0, want, sizeof(want), NULL), 5000);
	for (unsigned i = 0; i < 300; i++)
		load_engine_submit(e, request_for("a/b", i, 4990));
	for (unsigned i = 0; i < 300; i++) {
		struct load_request *r = reap_one(e);

		assert_int_equal(r->result, u64_min(4991, 5000 - r->off));
		assert_memory_equal(r->data, want + r->off, (size_t)r->result);
		assert_int_equal(r->opened, 0);
		request_free(r);
	}
	load_engine_free(e);
	store_close(o.store);
}

static void what_takes_no_time_is_read_by_the_owner(void **state)
{
	struct load_engine_options o = { .in_flight = 4 };
	struct load_engine *e;

	(void)state;
	limit_threads(0);
	assert_int_equal(store_open("null:size=5000,fill=none", NULL, &o.store, NULL), 0);
	e = engine_new(&o, 0, "none: reads take no time here");
	for (unsigned i = 0; i < 300; i++)
		load_engine_submit(e, request_for("a/b", i, 4990));
	for (unsigned i = 0; i < 300; i++) {
		struct load_request *r = reap_one(e);

		assert_int_equal(r->result, u64_min(4991, 5000 - r->off));
		assert_int_equal(r->data[0], 0xee); /* not even bytes are made */
		request_free(r);
	}
	assert_int_equal(load_engine_pending(e), 0);
	load_engine_free(e);
	store_close(o.store);
	assert_int_equal(store_open("null:size=5000,fill=none,delay_us=1", NULL, &o.store, NULL),
			 0);
	engine_new(&o, -EAGAIN, "cannot start a reading thread");
	store_close(o.store);
}

static void a_fault_reaches_the_request_that_met_it(void **state)
{
	static const struct store_fault faults[] = {
		{ STORE_READ, 10, 3, -EIO, 0 },
		{ STORE_READ, 20, 2, 0, 7 },
		{ STORE_READ, 50, 2, -EMFILE, 0 }, /* waits for another, and tries again */
		{ STORE_READ, 60, 1, -ENOMEM, 0 },
	};
	struct load_engine_options o = { .in_flight = 8 };
	unsigned failed = 0, cut = 0, no_memory = 0;
	struct store *null = NULL;
	struct load_engine *e;

	(void)state;
	assert_int_equal(store_open("null:size=500,delay_us=2000", NULL, &null, NULL), 0);
	assert_int_equal(store_fault_new(null, faults, ARRAY_LEN(faults), &o.store, NULL), 0);
	e = engine_new(&o, 0, "8 threads");
	for (unsigned i = 0; i < 100; i++)
		load_engine_submit(e, request_for("a", 0, 500));
	for (unsigned i = 0; i < 100; i++) {
		struct load_request *r = reap_one(e);

		failed += r->result == -EIO;
		cut += r->result == 493;
		no_memory += r->result == -ENOMEM;
		request_free(r);
	}
	assert_int_equal(failed, 3);
	assert_int_equal(cut, 2);
	assert_int_equal(no_memory, 1);
	assert_int_equal(store_fault_fired(o.store), 8);
	load_engine_free(e);
	store_close(o.store);
}

static void reaping_waits_no_longer_than_it_may(void **state)
{
	struct load_engine_options o = { .in_flight = 2 };
	struct load_request *r = request_for("d/4096", 0, 4096), *done;
	struct store *below = NULL;
	struct load_engine *e;
	uint64_t start;

	(void)state;
	assert_int_equal(store_open(dir, NULL, &below, NULL), 0);
	assert_int_equal(store_delay_new(below, 200000, &o.store, NULL), 0);
	e = engine_new(&o, 0, "2 threads");
	start = clock_now();
	load_engine_submit(e, r);
	assert_int_equal(load_engine_reap(e, &done, 1, 0, NULL), 0);
	assert_int_equal(load_engine_reap(e, &done, 1, 1000, NULL), 0);
	assert_in_range(clock_now() - start, 1000000, 190000000);
	assert_int_equal(load_engine_pending(e), 1);
	assert_int_equal(load_engine_reap(e, &done, 0, 1000, NULL), 0);
	assert_ptr_equal(reap_one(e), r);
	assert_true(clock_now() - start >= 200000000);
	assert_int_equal(r->result, 4096);
	load_engine_free(e);
	request_free(r);
	store_close(o.store);
}

/* Though there is work without it, for which it need not be woken each time. */
static void the_owner_hears_of_slow_reads_at_once(void **state)
{
	struct load_engine_options o = { .in_flight = 1 };
	struct load_engine *e;
	uint64_t start;

	(void)state;
	assert_int_equal(store_open("null:size=1,delay_us=50000", NULL, &o.store, NULL), 0);
	e = engine_new(&o, 0, "1 thread");
	start = clock_now();
	for (int i = 0; i < 10; i++)
		load_engine_submit(e, request_for("a", 0, 1));
	request_free(reap_one(e));
	assert_true(clock_now() - start < 400000000);
	for (int i = 1; i < 10; i++)
		request_free(reap_one(e));
	load_engine_free(e);
	store_close(o.store);
}

/* The descriptors of a thread, as far as they are of @kind; all of them if that is NULL. */
static unsigned descriptors_of(const char *task, const char *kind)
{
	char path[300], target[300];
	struct dirent *entry;
	unsigned nr = 0;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/self/task/%s/fd", task);
	fds = opendir(path);
	assert_non_null(fds);
	while ((entry = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue;
		target[n] = 0;
		nr += !kind || strstr(target, kind);
	}
	closedir(fds);
	return nr;
}

/* The standard error, the root, and what wakes an owner that waits in its ring; of a pipe's end
 * that the process has, nothing. */
static void a_thread_with_a_table_of_its_own_can_wake_the_owner(void **state)
{
	struct load_engine_options o = {
		.store = tree, .in_flight = 8, .threads = 2, .own_files = true
	};
	struct load_engine *e = NULL;
	struct dirent *entry;
	char path[100], pipe_name[100] = "";
	unsigned nr = 0;
	int ends[2];
	DIR *tasks;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	n = readlink(path, pipe_name, sizeof(pipe_name) - 1);
	assert_true(n > 0);
	assert_int_equal(load_engine_new(&o, &e, NULL), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(read_one(e, "d/4096", 0, 4096, 4096), 4096);
	tasks = opendir("/proc/self/task");
	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.' || descriptors_of(entry->d_name, pipe_name) > 0)
			continue; /* it shares the table of the process */
		assert_int_equal(descriptors_of(entry->d_name, "[eventfd]"), 1);
		assert_int_equal(descriptors_of(entry->d_name, NULL), 3);
		nr++;
	}
	closedir(tasks);
	if (strstr(detail_of(e), "table of open files"))
		assert_in_range(nr, 1, 2);
	load_engine_free(e);
	close(ends[0]);
	close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_of_every_size_come_byte_by_byte),
		TEST(any_stretch_of_a_file_can_be_read),
		TEST(a_file_that_has_grown_or_shrunk_is_seen),
		TEST(short_and_interrupted_reads_are_continued),
		TEST(direct_reads_go_on_where_they_are_aligned),
		TEST(what_cannot_be_read_says_why),
		TEST(the_longest_names_are_read),
		TEST(what_may_not_be_read_says_so),
		TEST(a_leased_file_is_waited_for),
		TEST(the_owner_can_be_woken),
		TEST(pages_in_the_cache_are_counted_on_old_kernels_too),
		TEST(of_others_files_the_page_cache_is_not_known),
		TEST(what_is_read_is_looked_at_before),
		TEST(a_request_that_makes_no_sense_comes_back),
		TEST(thousands_of_requests_come_back_once_each),
		TEST(an_owner_that_is_not_busy_reads_alone),
		TEST(help_that_cannot_be_had_is_done_without),
		TEST(few_descriptors_make_it_slow_and_not_wrong),
		TEST(no_descriptor_at_all_is_an_error_of_each_request),
		TEST(threads_that_lacked_descriptors_read_again_later),
		TEST(a_read_that_fails_for_want_of_descriptors_is_an_error_like_any),
		TEST(an_engine_is_freed_with_requests_in_flight),
		TEST(requests_that_share_a_file_read_it_though_it_is_replaced),
		TEST(many_requests_share_a_file_at_once),
		TEST(what_goes_wrong_with_a_shared_file_is_an_error_of_each),
		TEST(shared_files_get_along_with_few_descriptors),
		TEST(a_shared_file_that_is_given_up_is_closed),
		TEST(an_engine_belongs_to_the_thread_that_first_submits),
		TEST(without_io_uring_there_are_threads_and_it_is_said),
		TEST(buffers_that_cannot_be_registered_are_used_all_the_same),
		TEST(kernels_without_cached_opens_open_in_the_ring),
		TEST(options_that_make_no_sense_are_refused),
		TEST(the_most_in_flight_works),
		TEST(file_systems_that_refuse_direct_reads_are_named),
		TEST(threads_that_do_not_start_are_done_without),
		TEST(one_thread_with_a_ring_is_the_owner),
		TEST(threads_share_the_table_of_files_if_others_depend_on_it),
		TEST(no_memory_is_an_error_and_nothing_is_left),
		TEST(a_null_store_is_read_by_threads),
		TEST(what_takes_no_time_is_read_by_the_owner),
		TEST(a_fault_reaches_the_request_that_met_it),
		TEST(reaping_waits_no_longer_than_it_may),
		TEST(the_owner_hears_of_slow_reads_at_once),
		TEST(a_thread_with_a_table_of_its_own_can_wake_the_owner),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
