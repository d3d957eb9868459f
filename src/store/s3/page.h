/*
 * page.h - parse a page of a bucket's list (ListObjectsV2) while its bytes arrive.
 *
 * Expat parses 0.2 to 0.3 million keys per second; this scanner knows only the dozen elements that
 * matter, and parses more than 5 million. It accepts any well-formed page: elements in any
 * sequence, unknown ones, namespaces, comments, CDATA, references. It refuses document types, and
 * with them every attack by entities; anything too large or too deep; and incomplete pages. The
 * bytes come from a server: no content makes the scanner use more memory than a page of the longest
 * keys.
 *
 *	s3_page_start(&page);
 *	while (more)
 *		rc = s3_page_feed(&page, bytes, nr);
 *	rc = s3_page_check(&page, &err);
 *	if (rc == 0)
 *		rc = s3_page_decode(&page, &err);
 */
#ifndef SHOAL_STORE_S3_PAGE_H
#define SHOAL_STORE_S3_PAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/etag.h"

#define S3_PAGE_KEYS  1000 /* the most that a server sends */
#define S3_TOKEN_KEEP 4096 /* bytes of a continuation token */

/* Bytes of markup or text that are parsed in one piece: a key in which each byte is encoded. */
#define S3_PAGE_PIECE (3 * SHOAL_NAME_MAX + 4096)
#define S3_PAGE_DEPTH 12
#define S3_PAGE_TAG   48 /* bytes of an element's name */

/* The purpose of an element's text. */
enum s3_page_want {
	S3_WANT_NOTHING,
	S3_WANT_KEY,
	S3_WANT_SIZE,
	S3_WANT_ETAG,
	S3_WANT_TRUNCATED,
	S3_WANT_ENCODING,
	S3_WANT_TOKEN,
	S3_WANT_CODE,
	S3_WANT_MESSAGE,
};

struct s3_page_key {
	uint32_t off, len; /* of the name, in names */
	uint64_t size;     /* SHOAL_SIZE_UNKNOWN if the page has none */
};

struct s3_page {
	/* The result; keys and names are valid after s3_page_check(). */
	struct s3_page_key key[S3_PAGE_KEYS];
	size_t nr;
	/* The caller's array of S3_PAGE_KEYS, or NULL: ETags are not wanted. */
	struct etag *etags;
	struct buf names; /* each ended by a NUL; kept from page to page */
	bool truncated;   /* more keys follow */
	char token[S3_TOKEN_KEEP + 1];
	char code[64], message[256]; /* of an <Error> that came with a successful status */
	bool message_cut;            /* the message was truncated */

	/* Used by the scanner: */
	int rc;
	const char *wrong; /* the message for rc */
	uint64_t nr_bytes;
	struct {
		uint8_t len;
		char name[S3_PAGE_TAG];
	} open[S3_PAGE_DEPTH]; /* elements */
	unsigned depth;
	bool ended; /* the last tag was seen */
	bool is_error, in_contents, has_key, has_size, has_etag, has_truncated, encoded;
	enum s3_page_want want;
	char text[S3_TOKEN_KEEP + 1]; /* of a wanted element other than a key */
	size_t text_len;
	uint8_t piece[S3_PAGE_PIECE]; /* the start of an incomplete piece */
	size_t piece_len;
};

/* Zeroed before the first call. */
void s3_page_start(struct s3_page *p);

/* -EBADMSG, -E2BIG past a limit, -ENOMEM: s3_page_check() has the message. */
int s3_page_feed(struct s3_page *p, const void *data, size_t len) MUST_USE;

/*
 * The page is complete. Returns the error of s3_page_feed(), if there was one; -EIO with the
 * server's message if the page is an <Error>. Names stay as the server sent them.
 */
int s3_page_check(struct s3_page *p, struct shoal_err *err) MUST_USE;

/* Decode the names of a checked page that claims to have encoded ones. */
int s3_page_decode(struct s3_page *p, struct shoal_err *err) MUST_USE;

/*
 * The first key that decoding changes, of a page that claims to have encoded keys; p->nr if there
 * is none. *@ret_raw: some key has a byte that an encoding server escapes, or a '%' without two
 * digits, so that the claim is hardly true.
 */
size_t s3_page_find_encoded(const struct s3_page *p, bool *ret_raw);

/* Decode "%41" and '+' in place. Returns the length, or SIZE_MAX if malformed. */
size_t s3_page_decode_key(char *name, size_t len);

void s3_page_release(struct s3_page *p);

#endif
