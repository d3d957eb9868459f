/* A store of synthetic bytes, to measure everything that is not storage. */
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/le.h"
#include "base/text.h"
#include "store/kind.h"
#include "store/null/null.h"

#define NULL_PREFIX "null:"

struct null_store {
	struct store base;
	uint64_t size, delay_us;
	uint64_t at_once; /* reads that are served at a time; others wait. 0: any number */
	sem_t servers;    /* if there is a limit */
	bool no_bytes; /* leave the buffer untouched, to measure without the cost of generation */
};

static struct null_store *null_of(struct store *s)
{
	return (struct null_store *)s;
}

/* ---- The bytes ---- */

/*
 * Byte @off of a file is byte off % 8, least significant first, of word number off / 8. Word i
 * is the i-th number, counted from 0, of wyrand seeded with the XXH3 of the name: any word costs
 * one multiplication, so a read may start anywhere and needs no state. The bytes do not
 * compress, and no two names share blocks that could be deduplicated. Measured: 13 GB/s on one
 * core of an EPYC; splitmix64, with two multiplications, reached half of that.
 */
static inline uint64_t word_at(uint64_t seed, uint64_t i)
{
	uint64_t s = seed + (i + 1) * UINT64_C(0xa0761d6478bd642f);
	unsigned __int128 product = (unsigned __int128)s * (s ^ UINT64_C(0xe7037ed1a0b428db));

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Bytes [from, from + len) of one word. */
static void part_of_word(uint8_t *buf, uint64_t word, size_t from, size_t len)
{
	uint8_t bytes[8];

	le64_store(bytes, word);
	memcpy(buf, bytes + from, len);
}

static void generate(const char *name, uint64_t off, uint8_t *buf, size_t len)
{
	uint64_t seed = XXH3_64bits(name, strlen(name)), i = off / 8;
	size_t head = (size_t)(off % 8);

	if (head > 0) {
		size_t n = (size_t)u64_min(8 - head, len);

		part_of_word(buf, word_at(seed, i++), head, n);
		buf += n;
		len -= n;
	}
	for (; len >= 8; len -= 8, buf += 8)
		le64_store(buf, word_at(seed, i++));
	if (len > 0)
		part_of_word(buf, word_at(seed, i), 0, len);
}

/* ---- The table ---- */

static void null_close(struct store *s)
{
	if (null_of(s)->at_once)
		sem_destroy(&null_of(s)->servers);
	free(s->uri);
	free(null_of(s));
}

static int null_stat(struct store *s, const char *name, struct store_stat *ret_stat,
		     struct shoal_err *err)
{
	(void)name;
	(void)err;
	*ret_stat = (struct store_stat){ .size = null_of(s)->size };
	return 0;
}

/* The time that a read takes: its own, after that of reads before it if there are too many. */
static void null_serve(struct null_store *null)
{
	if (null->at_once)
		while (sem_wait(&null->servers) < 0 && errno == EINTR)
			;
	clock_pause_us(null->delay_us);
	if (null->at_once)
		sem_post(&null->servers);
}

static int64_t null_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			 struct shoal_err *err)
{
	struct null_store *null = null_of(s);
	size_t n = off < null->size ? (size_t)u64_min(len, null->size - off) : 0;

	(void)err;
	null_serve(null);
	if (!null->no_bytes)
		generate(name, off, buf, n);
	return (int64_t)n;
}

static int null_create(struct store *s, const char *name, struct store_writer **ret_writer,
		       struct shoal_err *err)
{
	struct store_writer *w = malloc(sizeof(*w));

	(void)name;
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	*w = (struct store_writer){ .store = s };
	*ret_writer = w;
	return 0;
}

static int null_write(struct store_writer *w, const void *data, size_t len, struct shoal_err *err)
{
	(void)w;
	(void)data;
	(void)len;
	(void)err;
	return 0;
}

static int null_commit(struct store_writer *w, struct shoal_err *err)
{
	(void)err;
	free(w);
	return 0;
}

static void null_abort(struct store_writer *w)
{
	free(w);
}

static int null_remove(struct store *s, const char *name, struct shoal_err *err)
{
	(void)s;
	(void)name;
	(void)err;
	return 0;
}

static int null_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	(void)s;
	(void)options;
	(void)unit;
	(void)len;
	(void)sink;
	return err_set(err, -ENOTSUP,
		       "a null store cannot be listed: make a catalog from a pattern");
}

static const struct store_ops null_ops = {
	.kind = "null",
	.close = null_close,
	.stat = null_stat,
	.read = null_read,
	.create = null_create,
	.write = null_write,
	.commit = null_commit,
	.abort = null_abort,
	.remove = null_remove,
	.list = null_list,
};

/* ---- Opening ---- */

#define AT_ONCE_MAX  1000000
#define DELAY_MAX_US UINT64_C(3600000000) /* an hour */

/* The value of "key=value"; NULL if @option has another key. */
static const char *value_of(const char *option, const char *key)
{
	size_t len = strlen(key);

	return strncmp(option, key, len) == 0 && option[len] == '=' ? option + len + 1 : NULL;
}

static int set_option(struct null_store *null, const char *option, struct shoal_err *err)
{
	const char *size = value_of(option, "size"), *delay = value_of(option, "delay_us");
	const char *fill = value_of(option, "fill"), *at_once = value_of(option, "at_once");
	uint64_t v;

	if (size) {
		/* A read returns the count as an int64_t. */
		if (parse_size(size, &v) < 0 || v > INT64_MAX)
			return err_set(
				err, -EINVAL,
				"null:size must be a number of bytes, such as 300000 or 4M, not "
				"'%.100s'",
				size);
		null->size = v;
	} else if (delay) {
		if (parse_u64(delay, &v) < 0 || v > DELAY_MAX_US)
			return err_set(err, -EINVAL,
				       "null:delay_us must be 0 to %" PRIu64 ", not '%.100s'",
				       DELAY_MAX_US, delay);
		null->delay_us = v;
	} else if (at_once) {
		if (parse_u64(at_once, &v) < 0 || v == 0 || v > AT_ONCE_MAX)
			return err_set(err, -EINVAL, "null:at_once must be 1 to %d, not '%.100s'",
				       AT_ONCE_MAX, at_once);
		null->at_once = v;
	} else if (fill) {
		if (strcmp(fill, "none") != 0)
			return err_set(err, -EINVAL, "null:fill must be none, not '%.100s'", fill);
		null->no_bytes = true;
	} else {
		return err_set(err, -EINVAL,
			       "null: has no option '%.100s': the options are size, delay_us, "
			       "at_once and fill",
			       option);
	}
	return 0;
}

/* Options are separated by commas. The text is modified. */
static int set_options(struct null_store *null, char *text, struct shoal_err *err)
{
	char *next;
	int rc = 0;

	for (char *at = text; *text && at && rc == 0; at = next) {
		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		rc = set_option(null, at, err);
	}
	return rc;
}

/* What follows "null:", such as "size=300000,delay_us=100"; it may be empty. */
static int null_parse(const struct store_uri *uri, struct null_store *null, struct shoal_err *err)
{
	char *text = strdup(uri->path);
	int rc;

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	rc = set_options(null, text, err);
	free(text);
	return rc;
}

static int null_check(const struct store_uri *uri, struct shoal_err *err)
{
	struct null_store null = { .size = 0 };

	return null_parse(uri, &null, err);
}

static int null_open(const struct store_uri *uri, const struct shoal_store_config *config,
		     struct store **ret_store, struct shoal_err *err)
{
	struct null_store null = { .base = { .ops = &null_ops, .traits = uri->kind->traits } },
			  *made;
	char limit[32] = "";
	int rc = null_parse(uri, &null, err);

	(void)config;
	if (rc < 0)
		return rc;
	/* Built from the values, so that a store has one URI however its options were written. */
	if (null.at_once)
		snprintf(limit, sizeof(limit), ",at_once=%" PRIu64, null.at_once);
	if (asprintf(&null.base.uri, "null:size=%" PRIu64 ",delay_us=%" PRIu64 "%s%s", null.size,
		     null.delay_us, limit, null.no_bytes ? ",fill=none" : "") < 0)
		return err_set(err, -ENOMEM, "out of memory");
	null.base.traits.instant = null.delay_us == 0 && null.no_bytes;
	made = malloc(sizeof(*made));
	if (!made) {
		free(null.base.uri);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*made = null;
	if (made->at_once)
		sem_init(&made->servers, 0, (unsigned)made->at_once);
	*ret_store = &made->base;
	return 0;
}

int store_null_any_size(const char *text, char *buf, size_t cap)
{
	size_t len = strlen(NULL_PREFIX);
	bool whole = strncmp(text, NULL_PREFIX, len) == 0;
	const char *rest = whole ? text + len : "";

	if (strcmp(text, "null") != 0 && (!whole || strstr(text, "size=")))
		return 0;
	if (snprintf(buf, cap, "%s%s%s", STORE_ANY_SIZE, *rest ? "," : "", rest) >= (int)cap)
		return -ENAMETOOLONG;
	return 1;
}

const struct store_kind store_null_kind = {
	.prefix = NULL_PREFIX,
	.traits = { .synthetic = true },
	.check = null_check,
	.open = null_open,
};
