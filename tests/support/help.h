/*
 * help.h - what the tests of the catalog and index rooms share: a folder that goes away, lists of
 * names, catalogs made of them, and images of catalogs to be damaged.
 */
#ifndef SHOAL_TESTS_HELP_H
#define SHOAL_TESTS_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/err.h"
#include "catalog/catalog_format.h"
#include "sanitized.h"
#include "shoal.h"

#define TEST_ROOT "s3://bucket/data"

/* calloc() that cannot fail, also not for 0 bytes. */
void *allocate(uint64_t nr, size_t size);

/* Numbers for choosing test cases; the same in every run. */
uint64_t random_u64(void);
uint64_t random_below(uint64_t end);

/* That an error says this, too. */
void check_words(const struct shoal_err *err, const char *words);

/* Wait until all threads but this one sleep: they have started, and wait for something. */
void wait_until_others_sleep(void);

/* Wait until @condition, or for a minute: the caller checks it afterwards. */
#define WAIT_UNTIL(condition)                                                  \
	do {                                                                   \
		for (int tries_ = 0; tries_ < 60000 && !(condition); tries_++) \
			usleep(1000);                                          \
	} while (0)

/* ---- Files ---- */

/* Group setup and teardown: a fresh folder in memory, and the check that tests left it empty. */
int test_dir_make(void **state);
int test_dir_remove(void **state);
const char *test_dir(void);

/* "<folder>/<name>", lent until eight others have been asked for. */
const char *test_path(const char *name);

/* The number of files in the folder, hidden ones and all. */
size_t test_dir_count(void);
void test_dir_empty(void);

/* No file may grow any more, until the limit is set back. */
struct rlimit files_may_not_grow(void);
void files_may_grow(const struct rlimit *before);

uint8_t *file_read(const char *path, size_t *ret_len);
void file_write(const char *path, const void *bytes, size_t len);

/*
 * The library installs its SIGBUS handler once; cmocka then puts its own over it before each test.
 * main() calls the first of these before cmocka, a test that needs the handler the second.
 */
void sigbus_guard_init(void);
void sigbus_guard(void);

/* ---- Lists of names ---- */

struct test_entry {
	char *name;
	size_t len;
	uint64_t size, samples;
};

struct test_list {
	struct test_entry *entry;
	size_t nr, cap;
};

void list_add(struct test_list *l, const void *name, size_t len, uint64_t size, uint64_t samples);
void list_addf(struct test_list *l, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Bytewise order, each name once: the one added first. */
void list_sort(struct test_list *l);
void list_release(struct test_list *l);

/* Names as people have them: folders, words, numbers, many shapes side by side. */
void list_add_irregular(struct test_list *l, const char *folder, size_t nr);

/* ---- Catalogs ---- */

/* Entries [from, end) of the list as the catalog @path. */
void catalog_write(const char *path, const struct test_list *l, size_t from, size_t end, bool sizes,
		   uint64_t samples_per_file);
struct shoal_catalog *catalog_open(const char *path);

/* The whole list as a catalog in the test folder, opened, and its file removed. */
struct shoal_catalog *catalog_of(const struct test_list *l, bool sizes, uint64_t samples_per_file);

/* Every name, size, sample and lookup, and verify. Of long lists some ids only are looked up. */
void catalog_check(const struct shoal_catalog *cat, const struct test_list *l);
void catalog_digest(const struct shoal_catalog *cat, char ret_digest[33]);

/* How many segments of @kind the catalog has. */
uint64_t catalog_count_kind(const struct shoal_catalog *cat, enum cat_kind kind);

/* ---- Images ---- */

/* Where section @id starts in the image, and its length. */
size_t image_section(const uint8_t *image, enum cat_section_id id, uint64_t *ret_len);

/* Make all checksums fit the bytes again. */
void image_repair(uint8_t *image);

/* Open the image through a file of its own, which is gone when this returns. */
int image_open(const uint8_t *image, size_t len, struct shoal_catalog **ret_cat,
	       struct shoal_err *err);

#endif
