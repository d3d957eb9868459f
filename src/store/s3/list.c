/*
 * Listing a bucket by ranges of keys.
 *
 * A unit is a range: the letter 'K', the length of lo as a varint, lo, and hi if the range has an
 * end. Both are names, without the store's prefix. An empty unit is the whole store.
 *
 * The next page is requested by the last name seen (start-after), not by the server's token. So any
 * thread, rank or later run can continue, and a range can start at any name. A token is used only
 * after a page without keys. A page is checked completely before any of it is taken, which detects
 * servers that list out of order, repeat themselves or never end.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/span.h"
#include "store/s3/key_encoding.h"
#include "store/s3/list.h"

/* Consecutive pages without a key from a server that reports more. */
#define EMPTY_PAGES 1000u

/* One of this many keys is used for learning. */
#define LEARN 4u

/* Memory of a thread, kept from unit to unit: some 80 KB, and a page's names. */
struct s3_scratch {
	struct s3_lister lister;
	struct store_entry entry[S3_PAGE_KEYS];
	struct s3_range range;
	uint8_t unit[S3_UNIT_MAX];
	bool with_etags;
	struct etag etag[]; /* of the page's keys, 20 KB, if they are wanted */
};

struct s3_listing {
	struct store_s3 *store;
	struct store_sink *sink;
	struct s3_scratch *scratch;
	bool sizes;
};

/* ---- Units ---- */

static bool take_name(struct span *s, uint64_t len, struct s3_name *ret_name)
{
	const uint8_t *at = span_bytes(s, len);

	if (s->bad || len > SHOAL_NAME_MAX)
		return false;
	ret_name->len = (size_t)len;
	memcpy(ret_name->bytes, at, (size_t)len);
	return true;
}

static int parse_unit(const void *unit, size_t len, struct s3_range *range, struct shoal_err *err)
{
	struct span s = { .p = unit, .end = (const uint8_t *)unit + len };

	range->lo.len = range->hi.len = 0;
	range->open = true;
	if (len == 0)
		return 0;
	if (span_u8(&s) != 'K' || !take_name(&s, span_varint(&s), &range->lo) ||
	    !take_name(&s, span_left(&s), &range->hi))
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	range->open = range->hi.len == 0;
	return 0;
}

size_t s3_list_unit(const struct s3_name *lo, const struct s3_name *hi, uint8_t *unit)
{
	uint8_t *p = unit;

	*p++ = 'K';
	p = varint_put(p, lo->len);
	memcpy(p, lo->bytes, lo->len);
	p += lo->len;
	if (hi) {
		memcpy(p, hi->bytes, hi->len);
		p += hi->len;
	}
	return (size_t)(p - unit);
}

bool store_s3_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			 size_t *ret_len)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len };

	(void)s;
	*ret_name = "";
	*ret_len = 0;
	if (len > 0 && span_u8(&span) == 'K') {
		*ret_len = (size_t)span_varint(&span);
		*ret_name = (const char *)span_bytes(&span, *ret_len);
	}
	return !span.bad;
}

bool store_s3_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
		       size_t *ret_len)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len };

	(void)s;
	if (len == 0 || span_u8(&span) != 'K')
		return false;
	(void)span_bytes(&span, span_varint(&span));
	*ret_len = span_left(&span);
	*ret_name = (const char *)span.p;
	return !span.bad && *ret_len > 0;
}

size_t store_s3_interval(struct store *s, const char *after, size_t after_len, const char *upto,
			 size_t upto_len, void *unit)
{
	uint8_t *p = unit;

	(void)s;
	*p++ = 'K';
	p = varint_put(p, after_len);
	memcpy(p, after, after_len);
	p += after_len;
	if (upto)
		memcpy(p, upto, upto_len);
	return (size_t)(p - (uint8_t *)unit) + (upto ? upto_len : 0);
}

static void say_left(void *self, const struct s3_name *lo, const struct s3_name *hi)
{
	struct s3_listing *l = self;
	size_t len = s3_list_unit(lo, hi, l->scratch->unit);

	l->sink->remaining(l->sink, l->scratch->unit, len);
}

/* Report to the sink what remains of the range. */
static void s3_list_report_remaining(struct s3_listing *l)
{
	if (l->sink->remaining)
		s3_ranges_rest(l->store->ranges, &l->scratch->range, say_left, l);
}

static size_t count_idle(void *self)
{
	const struct s3_listing *l = self;

	return l->sink->nr_idle(l->sink);
}

static int give_range(void *self, const struct s3_name *lo, const struct s3_name *hi,
		      struct shoal_err *err)
{
	struct s3_listing *l = self;
	size_t len = s3_list_unit(lo, hi, l->scratch->unit);

	return l->sink->add_unit(l->sink, l->scratch->unit, len, err);
}

/* While other threads are idle, hand them parts of this range or of others. */
static int s3_list_share(struct s3_listing *l, struct shoal_err *err)
{
	struct s3_takers takers = { .idle = count_idle, .give = give_range, .self = l };

	if (!l->sink->nr_idle || l->sink->nr_idle(l->sink) == 0)
		return 0;
	return s3_ranges_share(l->store->ranges, &takers, err);
}

/* ---- A page ---- */

static int s3_list_feed(struct s3_request *r, const void *data, size_t len)
{
	return s3_page_feed(r->self, data, len);
}

static void feed_again(struct s3_request *r)
{
	s3_page_start(r->self);
}

static void add_parameter(struct s3_request *r, struct s3_pair *query, const char *name,
			  const char *value, size_t len)
{
	query[r->nr_query++] = (struct s3_pair){ .name = name, .value = value, .value_len = len };
}

static int s3_list_request(struct s3_lister *l, const struct s3_name *lo, const char *token,
			   unsigned max_keys, struct shoal_err *err)
{
	const struct store_s3 *store = l->store;
	char most[16];
	struct s3_pair query[6];
	struct s3_request r = { .method = S3_GET,
				.query = query,
				.sink = s3_list_feed,
				.again = feed_again,
				.self = &l->page,
				.err = err };
	int rc;

	snprintf(most, sizeof(most), "%u", max_keys);
	add_parameter(&r, query, "list-type", "2", 1);
	add_parameter(&r, query, "encoding-type", "url", 3);
	add_parameter(&r, query, "max-keys", most, strlen(most));
	if (store->prefix_len > 0)
		add_parameter(&r, query, "prefix", store->prefix, store->prefix_len);
	memcpy(l->after, store->prefix, store->prefix_len);
	memcpy(l->after + store->prefix_len, lo->bytes, lo->len);
	if (*token)
		add_parameter(&r, query, "continuation-token", token, strlen(token));
	else if (lo->len > 0 || (l->begun && store->prefix_len > 0))
		add_parameter(&r, query, "start-after", l->after, store->prefix_len + lo->len);
	s3_page_start(&l->page);
	rc = s3_client_do(l->client, &r, l->stop);
	s3_mask(store->config, l->page.code);
	s3_mask(store->config, l->page.message);
	if (rc == 0 || l->page.rc < 0) /* the page's own error is more precise */
		rc = s3_page_check(&l->page, err);
	return rc == 0 ? s3_decode_page(l, err) : rc;
}

const uint8_t *s3_list_name(const struct s3_lister *l, size_t i, size_t *ret_len)
{
	*ret_len = l->page.key[i].len - l->store->prefix_len;
	return l->page.names.data + l->page.key[i].off + l->store->prefix_len;
}

static int check_page(const struct s3_lister *l, const struct s3_name *lo, struct shoal_err *err)
{
	const struct store_s3 *store = l->store;
	const struct s3_page *p = &l->page;
	const uint8_t *last = lo->bytes, *name;
	size_t last_len = lo->len, len;

	for (size_t i = 0; i < p->nr; i++) {
		const uint8_t *key = p->names.data + p->key[i].off;
		int order;

		if (p->key[i].len < store->prefix_len ||
		    memcmp(key, store->prefix, store->prefix_len) != 0)
			return err_set(err, -EBADMSG,
				       "the server lists '%.200s', which is not below '%s'", key,
				       store->prefix);
		name = s3_list_name(l, i, &len);
		order = name_compare(last, last_len, name, len);
		if (order > 0 || (order == 0 && (len > 0 || i > 0 || l->begun)))
			return err_set(
				err, -EBADMSG,
				"the server lists '%.200s' %s '%.*s': it does not list in order, "
				"or not from the requested key",
				(const char *)name, order == 0 ? "again after" : "after",
				(int)u64_min(last_len, 200), (const char *)last);
		last = name;
		last_len = len;
	}
	return 0;
}

int s3_list_page(struct s3_lister *l, const struct s3_name *lo, const char *token,
		 unsigned max_keys, struct shoal_err *err)
{
	int rc = s3_list_request(l, lo, token, max_keys, err);

	return rc < 0 ? rc : check_page(l, lo, err);
}

/* ---- What was found ---- */

/* A name that a catalog cannot hold, or that is not below the root. */
static int unsupported_name(struct s3_listing *l, const uint8_t *name, size_t len,
			    struct shoal_err *err)
{
	struct shoal_err words = { "" };
	int rc = -ENAMETOOLONG;

	if (len == 0) /* the prefix with its slash: some tools create it in place of a directory */
		return 0;
	if (len > SHOAL_NAME_MAX) {
		err_describe(&words,
			     "key '%.200s...' has %zu bytes: a name in a catalog has at most %d",
			     (const char *)name, len, SHOAL_NAME_MAX);
	} else {
		rc = -EILSEQ;
		err_describe(&words,
			     "key '%.200s' contains a NUL byte, which a catalog cannot store",
			     (const char *)name);
	}
	rc = l->sink->trouble(l->sink, rc, &words);
	return rc < 0 ? err_set_as(err, rc, &words, "%s", words.msg) : 0;
}

/* Learn from the first @nr names of the page. */
static void learn(const struct s3_listing *l, size_t nr)
{
	for (size_t i = 0; i < nr; i += i + LEARN < nr ? LEARN : u64_max(1, nr - 1 - i)) {
		size_t len;
		const uint8_t *name = s3_list_name(&l->scratch->lister, i, &len);

		if (!memchr(name, '\0',
			    len)) /* such a key is reported, and servers refuse splits at it */
			s3_ranges_learn(l->store->ranges, name, len);
	}
}

/* Hand over the first @nr names of the page. */
static int take_page(struct s3_listing *l, size_t nr, struct shoal_err *err)
{
	struct s3_scratch *s = l->scratch;
	struct store_sink *sink = l->sink;
	size_t wanted = 0;
	int rc = 0;

	for (size_t i = 0; i < nr && rc == 0; i++) {
		size_t len;
		const uint8_t *name = s3_list_name(&s->lister, i, &len);

		if (len == 0 || len > SHOAL_NAME_MAX || memchr(name, 0, len)) {
			rc = unsupported_name(l, name, len, err);
		} else if (!store_is_wanted(sink, (const char *)name, len)) {
			sink->skipped[STORE_SKIP_FILTERED]++;
		} else {
			s->entry[wanted++] = (struct store_entry){
				.name = (const char *)name,
				.len = len,
				.size = l->sizes ? s->lister.page.key[i].size : SHOAL_SIZE_UNKNOWN,
				.etag = s->lister.page.etags ? &s->lister.page.etags[i] : NULL,
			};
		}
	}
	if (rc == 0 && wanted > 0)
		rc = sink->found(sink, s->entry, wanted, err);
	return rc;
}

/* ---- A range ---- */

/* An answer without keys that reports more: continue with its token, if that makes progress. */
static int follow_token(struct s3_listing *l, char *token, unsigned *nr_empty,
			struct shoal_err *err)
{
	const char *next = l->scratch->lister.page.token;

	if (!*next)
		return err_set(err, -EBADMSG,
			       "the list is truncated, but the server sends no continuation token");
	if (strcmp(next, token) == 0)
		return err_set(err, -EBADMSG, "the server repeats the same page of the list");
	if (++*nr_empty == EMPTY_PAGES)
		return err_set(err, -EBADMSG,
			       "the list is truncated, but the server sent %u pages without a "
			       "key",
			       EMPTY_PAGES);
	memcpy(token, next, strlen(next) + 1);
	return 0;
}

/* After a truncated name the same page would come again and again. */
static int check_last(const struct s3_listing *l, struct shoal_err *err)
{
	size_t len;
	const uint8_t *name =
		s3_list_name(&l->scratch->lister, l->scratch->lister.page.nr - 1, &len);

	if (len <= SHOAL_NAME_MAX)
		return 0;
	return err_set(err, -E2BIG,
		       "a page of the list ends with key '%.200s...' of %zu bytes: a "
		       "list cannot be continued after a key of more than %d",
		       (const char *)name, len, SHOAL_NAME_MAX);
}

static const uint8_t *name_of(const void *lister, size_t i, size_t *ret_len)
{
	return s3_list_name(lister, i, ret_len);
}

/* How many names of the page belong to the range, and whether the range ends there. */
static size_t claim_page(struct s3_listing *l, bool *ret_done)
{
	struct s3_lister *lister = &l->scratch->lister;
	struct s3_listed listed = { .nr = lister->page.nr,
				    .truncated = lister->page.truncated,
				    .name = name_of,
				    .self = lister };
	size_t nr;

	learn(l, lister->page.nr);
	nr = s3_ranges_take(l->store->ranges, &l->scratch->range, &listed, ret_done);
	lister->begun = lister->begun || nr > 0;
	return nr;
}

/* List a page, and report whether it was the last. */
static int list_page(struct s3_listing *l, char *token, unsigned *nr_empty, bool *ret_done,
		     struct shoal_err *err)
{
	struct s3_scratch *s = l->scratch;
	size_t nr;
	int rc = s3_list_page(&s->lister, &s->range.lo, token, S3_PAGE_KEYS, err);

	if (rc < 0)
		return rc;
	nr = claim_page(l, ret_done);
	rc = take_page(l, nr, err);
	if (rc < 0 || *ret_done)
		return rc;
	if (nr == 0)
		return follow_token(l, token, nr_empty, err);
	token[0] = '\0';
	*nr_empty = 0;
	rc = check_last(l, err);
	if (rc == 0)
		rc = s3_list_share(l, err);
	s3_list_report_remaining(l);
	return rc;
}

static int s3_list_list_range(struct s3_listing *l, struct shoal_err *err)
{
	struct s3_ranges *ranges = l->store->ranges;
	char token[S3_TOKEN_KEEP + 1] = "";
	unsigned nr_empty = 0;
	bool done = false;
	int rc = 0;

	l->scratch->lister.begun = false;
	s3_ranges_begin(ranges, &l->scratch->range);
	while (rc == 0 && !done)
		rc = list_page(l, token, &nr_empty, &done, err);
	s3_ranges_end(ranges, &l->scratch->range);
	return rc < 0 ? rc : s3_list_share(l, err);
}

static void s3_list_free_scratch(void *scratch)
{
	s3_page_release(&((struct s3_scratch *)scratch)->lister.page);
	free(scratch);
}

int store_s3_list(struct store *s, const struct store_list_options *options, const void *unit,
		  size_t len, struct store_sink *sink, struct shoal_err *err)
{
	const size_t etags = S3_PAGE_KEYS * sizeof(struct etag);
	struct s3_listing l = { .store = store_s3_of(s), .sink = sink, .sizes = options->sizes };
	int rc;

	if (!sink->scratch) {
		l.scratch = calloc(1, sizeof(*l.scratch) + (options->etags ? etags : 0));
		if (!l.scratch)
			return err_set(err, -ENOMEM, "out of memory");
		l.scratch->with_etags = options->etags;
		sink->scratch = l.scratch;
		sink->free_scratch = s3_list_free_scratch;
	}
	l.scratch = sink->scratch;
	assert(l.scratch->with_etags == options->etags);
	l.scratch->lister.page.etags = l.scratch->with_etags ? l.scratch->etag : NULL;
	l.scratch->lister.store = l.store;
	l.scratch->lister.stop = sink->stop;
	rc = parse_unit(unit, len, &l.scratch->range, err);
	if (rc == 0)
		rc = s3_pool_take(l.store->pool, &l.scratch->lister.client, err);
	if (rc < 0)
		return rc;
	rc = s3_list_list_range(&l, err);
	s3_pool_give(l.store->pool, l.scratch->lister.client);
	return rc;
}
