/*
 * What expat takes as a page the scanner takes, with the same keys; however the bytes are cut into
 * pieces, the scanner says the same. The first byte says how to cut, and whether ETags are wanted.
 */
#include "store/s3/page.h"

#include <assert.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static int page_end(struct s3_page *p, struct shoal_err *err)
{
	int rc = s3_page_check(p, err);

	return rc < 0 ? rc : s3_page_decode(p, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* ---- The reference: all text, by way of expat ---- */

struct reference {
	bool odd; /* has what the scanner refuses though it is XML, or what is not for it to judge
		   */
	unsigned depth;
	bool is_error, in_contents, in_text, has_key, has_size, has_etag, truncated, has_truncated;
	bool encoded, etags;
	size_t nr;
	uint64_t size[S3_PAGE_KEYS + 1];
	struct etag etag[S3_PAGE_KEYS + 1];
	struct buf keys;
	uint32_t key_len[S3_PAGE_KEYS + 1];
	char name[64];
	char text[S3_TOKEN_KEEP + 1];
	size_t text_len;
};

static const char *local(const char *name)
{
	const char *colon = strchr(name, ':');

	return colon ? colon + 1 : name;
}

static void XMLCALL start(void *self, const char *name, const char **attributes)
{
	struct reference *r = self;
	const char *is = local(name);

	(void)attributes;
	if (r->in_text || strlen(name) > S3_PAGE_TAG || r->depth == S3_PAGE_DEPTH)
		r->odd = true;
	if (r->depth == 0) {
		r->is_error = strcmp(is, "Error") == 0;
		r->odd |= !r->is_error && strcmp(is, "ListBucketResult") != 0;
	}
	if (!r->is_error && r->depth == 1 && strcmp(is, "Contents") == 0) {
		r->in_contents = true;
		r->has_key = r->has_size = r->has_etag = false;
		r->etag[r->nr] = etag_parse("", 0);
		r->odd |= r->nr == S3_PAGE_KEYS;
		r->size[r->nr] = SHOAL_SIZE_UNKNOWN;
		r->key_len[r->nr] = 0;
	}
	if ((r->depth == 2 && r->in_contents &&
	     (strcmp(is, "Key") == 0 || strcmp(is, "Size") == 0 ||
	      (r->etags && strcmp(is, "ETag") == 0))) ||
	    (r->depth == 1 && r->is_error &&
	     (strcmp(is, "Code") == 0 || strcmp(is, "Message") == 0)) ||
	    (r->depth == 1 && !r->is_error &&
	     (strcmp(is, "IsTruncated") == 0 || strcmp(is, "EncodingType") == 0 ||
	      strcmp(is, "NextContinuationToken") == 0))) {
		r->in_text = true;
		r->text_len = 0;
		strncpy(r->name, is, sizeof(r->name) - 1);
	}
	r->depth++;
}

static void XMLCALL text(void *self, const char *data, int len)
{
	struct reference *r = self;

	if (!r->in_text)
		return;
	if ((size_t)len > sizeof(r->text) - 1 - r->text_len) {
		r->odd = true; /* too long to judge here */
		return;
	}
	memcpy(r->text + r->text_len, data, (size_t)len);
	r->text_len += (size_t)len;
}

static char *trim(char *text)
{
	size_t len = strlen(text);

	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
	return text + strspn(text, " \t\r\n");
}

static void end_text(struct reference *r)
{
	char *trimmed;

	r->text[r->text_len] = '\0';
	if (r->depth == 2 && strcmp(r->name, "Key") == 0) {
		r->odd |= r->has_key;
		r->has_key = true;
		if (r->text_len)
			buf_append(&r->keys, r->text, r->text_len);
		r->key_len[r->nr] = (uint32_t)r->text_len;
		return;
	}
	trimmed = trim(r->text);
	if (r->depth == 2 && strcmp(r->name, "ETag") == 0) {
		r->odd |= r->has_etag;
		r->has_etag = true;
		r->etag[r->nr] = etag_parse(trimmed, strlen(trimmed));
	} else if (r->depth == 2) {
		r->odd |= r->has_size || parse_u64(trimmed, &r->size[r->nr]) < 0 ||
			  r->size[r->nr] == SHOAL_SIZE_UNKNOWN;
		r->has_size = true;
	} else if (strcmp(r->name, "IsTruncated") == 0) {
		r->has_truncated = true;
		r->truncated = strcmp(trimmed, "true") == 0;
		r->odd |= !r->truncated && strcmp(trimmed, "false") != 0;
	} else if (strcmp(r->name, "EncodingType") == 0) {
		r->encoded = strcmp(trimmed, "url") == 0;
	}
}

static void XMLCALL end(void *self, const char *name)
{
	struct reference *r = self;

	(void)name;
	r->depth--;
	if (r->in_text && !r->odd)
		end_text(r);
	else if (!r->in_text && r->depth == 1 && r->in_contents) {
		r->odd |= !r->has_key || r->key_len[r->nr] == 0;
		r->in_contents = false;
		r->nr += !r->odd;
	}
	r->in_text = false;
}

static void XMLCALL doctype(void *self, const char *name, const char *sys, const char *pub, int has)
{
	(void)name, (void)sys, (void)pub, (void)has;
	((struct reference *)self)->odd = true;
}

static void XMLCALL declaration(void *self, const char *version, const char *encoding, int alone)
{
	(void)version, (void)alone;
	if (encoding && strcasecmp(encoding, "utf-8") != 0)
		((struct reference *)self)->odd = true;
}

/* ---- The comparison ---- */

static bool read_by_expat(struct reference *r, const uint8_t *data, size_t len)
{
	XML_Parser parser = XML_ParserCreate(NULL);
	bool good;

	assert(parser);
	XML_SetUserData(parser, r);
	XML_SetElementHandler(parser, start, end);
	XML_SetCharacterDataHandler(parser, text);
	XML_SetStartDoctypeDeclHandler(parser, doctype);
	XML_SetXmlDeclHandler(parser, declaration);
	good = XML_Parse(parser, (const char *)data, (int)len, 1) == XML_STATUS_OK;
	XML_ParserFree(parser);
	return good;
}

static int read_page(struct s3_page *p, const uint8_t *data, size_t len, size_t step)
{
	s3_page_start(p);
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		uint8_t *piece = malloc(n); /* so that a read past it is seen */

		assert(piece);
		memcpy(piece, data + at, n);
		if (s3_page_feed(p, piece, n) < 0)
			at = len;
		free(piece);
	}
	return page_end(p, NULL);
}

static void check_same(const struct s3_page *p, const struct reference *r)
{
	size_t off = 0;

	assert(p->nr == r->nr && p->truncated == r->truncated && p->encoded == r->encoded);
	for (size_t i = 0; i < r->nr; i++) {
		assert(p->key[i].size == r->size[i] && p->key[i].len <= r->key_len[i]);
		assert(!p->etags || etag_same(&p->etags[i], &r->etag[i]));
		assert(r->encoded || (p->key[i].len == r->key_len[i] &&
				      memcmp(p->names.data + p->key[i].off, r->keys.data + off,
					     r->key_len[i]) == 0));
		off += r->key_len[i];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct s3_page *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct reference *r = calloc(1, sizeof(*r));
	struct etag *etags = calloc(2 * S3_PAGE_KEYS, sizeof(*etags));
	int rc, again;

	if (len < 1 || !a || !b || !r || !etags)
		goto out;
	r->etags = data[0] < 128;
	a->etags = r->etags ? etags : NULL;
	b->etags = r->etags ? etags + S3_PAGE_KEYS : NULL;
	r->keys.max = SIZE_MAX;
	rc = read_page(a, data + 1, len - 1, SIZE_MAX / 2);
	again = read_page(b, data + 1, len - 1, data[0] % 32u + 1u);
	assert(rc == again);
	assert(rc < 0 || a->nr == b->nr);
	for (size_t i = 0; rc == 0 && r->etags && i < a->nr; i++)
		assert(etag_same(&a->etags[i], &b->etags[i]));
	if (rc == 0)
		for (size_t i = 0; i < a->nr; i++)
			assert(a->key[i].len == b->key[i].len && a->key[i].size == b->key[i].size &&
			       memcmp(a->names.data + a->key[i].off, b->names.data + b->key[i].off,
				      a->key[i].len) == 0);
	if (read_by_expat(r, data + 1, len - 1) && !r->odd && r->has_truncated && !r->is_error &&
	    rc != -E2BIG) {
		/* All that may be wrong with it then is how a key is encoded. */
		assert(rc == 0 || (rc == -EBADMSG && r->encoded));
		if (rc == 0)
			check_same(a, r);
	}
out:
	if (r)
		buf_release(&r->keys);
	if (a)
		s3_page_release(a);
	if (b)
		s3_page_release(b);
	free(a);
	free(b);
	free(r);
	free(etags);
	return 0;
}
