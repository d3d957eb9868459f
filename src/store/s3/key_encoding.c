/*
 * Whether the keys of a bucket's list are encoded.
 *
 * Some servers claim that they are and send them as they are: "pct%20x" would become "pct x". Only
 * keys that decoding changes matter. One of them is looked up, once per store, by a list of the
 * keys that begin with it: it tells how the server writes the key, needs no permission but that to
 * list, and holds even if objects of both names exist. Its errors are those of the listing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3/key_encoding.h"

static int key_encoding_feed(struct s3_request *r, const void *data, size_t len)
{
	return s3_page_feed(r->self, data, len);
}

static void key_encoding_again(struct s3_request *r)
{
	s3_page_start(r->self);
}

struct looked_up {
	struct s3_page page;
	struct s3_name text, decoded; /* as it was sent, and what that decodes to */
};

/* List the first key that begins with @prefix. Returns 1, or 0 if there is none. */
static int list_first(struct s3_lister *l, struct s3_page *page, const struct s3_name *prefix,
		      struct shoal_err *err)
{
	const struct s3_pair query[] = {
		{ .name = "list-type", .value = "2", .value_len = 1 },
		{ .name = "encoding-type", .value = "url", .value_len = 3 },
		{ .name = "max-keys", .value = "1", .value_len = 1 },
		{ .name = "prefix", .value = (const char *)prefix->bytes, .value_len = prefix->len }
	};
	struct s3_request r = { .method = S3_GET,
				.query = query,
				.nr_query = ARRAY_LEN(query),
				.sink = key_encoding_feed,
				.again = key_encoding_again,
				.self = page,
				.err = err };
	int rc;

	s3_page_start(page);
	rc = s3_client_do(l->client, &r, l->stop);
	s3_mask(l->store->config, page->code);
	s3_mask(l->store->config, page->message);
	if (rc == 0 || page->rc < 0)
		rc = s3_page_check(page, err);
	return rc < 0 ? rc : page->nr > 0;
}

/* Whether the key that was listed begins with @start, as it was sent. */
static bool key_begins_with(const struct s3_page *page, const struct s3_name *start)
{
	return page->key[0].len >= start->len &&
	       memcmp(page->names.data + page->key[0].off, start->bytes, start->len) == 0;
}

/* A server that encodes writes the key as the text, and one that does not as it is. */
static int look_up_decoded(struct s3_lister *l, struct looked_up *x, struct shoal_err *err)
{
	int rc = x->decoded.len == SIZE_MAX ? 0 : list_first(l, &x->page, &x->decoded, err);

	if (rc <= 0)
		return rc < 0 ? rc : S3_KEYS_UNKNOWN;
	return key_begins_with(&x->page, &x->text)      ? S3_KEYS_ENCODED
	       : key_begins_with(&x->page, &x->decoded) ? S3_KEYS_RAW
							: S3_KEYS_UNKNOWN;
}

/* Only a server that does not encode writes a key that begins with the text as the text itself. */
static int look_up_text(struct s3_lister *l, struct looked_up *x, struct shoal_err *err)
{
	int rc = list_first(l, &x->page, &x->text, err);

	if (rc <= 0)
		return rc < 0 ? rc : S3_KEYS_UNKNOWN;
	return x->page.key[0].len == x->text.len && key_begins_with(&x->page, &x->text)
		       ? S3_KEYS_RAW
		       : S3_KEYS_ENCODED;
}

/*
 * Look up the key @i of the lister's page. S3_KEYS_UNKNOWN: the object is gone. A text such as
 * "a%25", which begins with what it decodes to, is looked up first, since one that begins with "a%"
 * could be either.
 */
static int look_up(struct s3_lister *l, size_t i, struct looked_up *x, struct shoal_err *err)
{
	int (*first)(struct s3_lister *, struct looked_up *, struct shoal_err *) = look_up_decoded;
	int rc;

	x->text.len = l->page.key[i].len;
	memcpy(x->text.bytes, l->page.names.data + l->page.key[i].off, x->text.len);
	x->decoded = x->text;
	x->decoded.len = s3_page_decode_key((char *)x->decoded.bytes, x->text.len);
	if (x->decoded.len < x->text.len &&
	    memcmp(x->decoded.bytes, x->text.bytes, x->decoded.len) == 0)
		first = look_up_text;
	rc = first(l, x, err);
	if (rc != S3_KEYS_UNKNOWN)
		return rc;
	rc = first == look_up_text ? look_up_decoded(l, x, err) : look_up_text(l, x, err);
	if (rc == S3_KEYS_UNKNOWN && x->decoded.len == SIZE_MAX)
		return err_set(err, -EBADMSG,
			       "a page of the list has a malformed encoding of a key");
	return rc;
}

static int find_out(struct s3_lister *l, size_t i, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	struct looked_up *x;
	int rc;

	if (l->page.key[i].len > SHOAL_NAME_MAX) /* it is refused anyway */
		return S3_KEYS_UNKNOWN;
	x = calloc(1, sizeof(*x)); /* some 80 KB */
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	rc = look_up(l, i, x, &why);
	s3_page_release(&x->page);
	free(x);
	if (rc == -EACCES) /* a policy may allow lists of a single prefix only */
		return S3_KEYS_UNKNOWN;
	return rc < 0 ? err_set_as(err, rc, &why, "%s", why.msg) : rc;
}

int s3_decode_page(struct s3_lister *l, struct shoal_err *err)
{
	struct store_s3 *store = l->store;
	int known = (int)__atomic_load_n(&store->key_encoding, __ATOMIC_RELAXED);
	bool looks_raw;
	size_t i;

	if (known == S3_KEYS_UNKNOWN) {
		i = s3_page_find_encoded(&l->page, &looks_raw);
		if (looks_raw)
			__atomic_store_n(&store->keys_look_raw, true, __ATOMIC_RELAXED);
		if (i == l->page.nr)
			return 0;
		known = find_out(l, i, err);
		if (known < 0)
			return known;
		if (known != S3_KEYS_UNKNOWN)
			__atomic_store_n(&store->key_encoding, (unsigned)known, __ATOMIC_RELAXED);
		else if (__atomic_load_n(&store->keys_look_raw, __ATOMIC_RELAXED))
			known = S3_KEYS_RAW;
	}
	return known == S3_KEYS_RAW ? 0 : s3_page_decode(&l->page, err);
}
