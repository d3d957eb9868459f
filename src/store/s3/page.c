#include "store/s3/page.h"

#include <string.h>

#include "base/text.h"

/* The longest possible page: a thousand keys with every byte encoded. */
#define PAGE_BYTES  (UINT64_C(16) << 20)
#define NAMES_BYTES ((size_t)S3_PAGE_KEYS * (3 * SHOAL_NAME_MAX + 1))
#define KEY_BYTES   (3 * SHOAL_NAME_MAX)

static int wrong(struct s3_page *p, int rc, const char *words)
{
	p->rc = rc;
	p->wrong = words;
	return rc;
}

/* ---- Text ---- */

static int page_put_text(struct s3_page *p, const char *text, size_t len)
{
	if (len == 0)
		return 0;
	if (p->want == S3_WANT_KEY) {
		struct s3_page_key *k = &p->key[p->nr];

		if (len > KEY_BYTES - k->len)
			return wrong(p, -E2BIG, "a key that is too long");
		buf_append(&p->names, text, len);
		k->len += (uint32_t)len;
		return p->names.rc < 0 ? wrong(p, p->names.rc, "out of memory") : 0;
	}
	if (len > S3_TOKEN_KEEP - p->text_len) /* a server's message may be long */
		return p->want == S3_WANT_MESSAGE ? 0 : wrong(p, -E2BIG, "text that is too long");
	memcpy(p->text + p->text_len, text, len);
	p->text_len += len;
	return 0;
}

/* "#65" or "#x41". 0 if malformed: NUL is not allowed in XML. */
static uint32_t page_number_of(const char *p, size_t len)
{
	unsigned base = len > 1 && p[1] == 'x' ? 16 : 10;
	size_t at = base == 16 ? 2 : 1;
	uint32_t v = 0;

	if (at == len)
		return 0;
	for (; at < len; at++) {
		unsigned c = (unsigned char)p[at], digit = c - '0';

		if (base == 16 && (c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (c | 32) - 'a' + 10;
		if (digit >= base || v > 0x10ffff)
			return 0;
		v = v * base + digit;
	}
	return v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? 0 : v;
}

/* The reference between '&' and ';'. */
static int put_reference(struct s3_page *p, const char *name, size_t len)
{
	static const struct {
		const char *name;
		char is;
	} known[] = {
		{ "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' }
	};
	char out[4];
	uint32_t c = len > 0 && name[0] == '#' ? page_number_of(name, len) : 0;

	if (c > 0)
		return page_put_text(p, out, utf8_put(out, c));
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (len == strlen(known[i].name) && memcmp(name, known[i].name, len) == 0)
			return page_put_text(p, &known[i].is, 1);
	return wrong(p, -EBADMSG, "an undefined reference");
}

/* Every line ending becomes a line feed. */
static int put_lines(struct s3_page *p, const char *text, const char *end)
{
	int rc = 0;

	while (rc == 0 && text < end) {
		const char *cr = memchr(text, '\r', (size_t)(end - text));

		rc = page_put_text(p, text, (size_t)((cr ? cr : end) - text));
		if (!cr)
			break;
		text = cr + 1;
		if (rc == 0 && (text == end || *text != '\n'))
			rc = page_put_text(p, "\n", 1);
	}
	return rc;
}

static int take_text(struct s3_page *p, const char *text, const char *end)
{
	int rc = 0;

	while (rc == 0 && text < end) {
		const char *amp = memchr(text, '&', (size_t)(end - text));
		const char *semi;

		rc = put_lines(p, text, amp ? amp : end);
		if (!amp || rc < 0)
			break;
		semi = memchr(amp, ';', (size_t)(end - amp));
		if (!semi)
			return wrong(p, -EBADMSG, "an unterminated reference");
		rc = put_reference(p, amp + 1, (size_t)(semi - amp - 1));
		text = semi + 1;
	}
	return rc;
}

static bool page_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_blank(const char *text, const char *end)
{
	while (text < end && page_is_space(*text))
		text++;
	return text == end;
}

/* ---- Elements ---- */

static bool is(const char *name, size_t len, const char *want)
{
	return len == strlen(want) && memcmp(name, want, len) == 0;
}

static enum s3_page_want want_of(const struct s3_page *p, const char *name, size_t len)
{
	if (p->in_contents && p->depth == 2) {
		if (is(name, len, "Key"))
			return S3_WANT_KEY;
		if (p->etags && is(name, len, "ETag"))
			return S3_WANT_ETAG;
		return is(name, len, "Size") ? S3_WANT_SIZE : S3_WANT_NOTHING;
	}
	if (p->depth != 1)
		return S3_WANT_NOTHING;
	if (p->is_error)
		return is(name, len, "Code")      ? S3_WANT_CODE
		       : is(name, len, "Message") ? S3_WANT_MESSAGE
						  : S3_WANT_NOTHING;
	return is(name, len, "IsTruncated")             ? S3_WANT_TRUNCATED
	       : is(name, len, "EncodingType")          ? S3_WANT_ENCODING
	       : is(name, len, "NextContinuationToken") ? S3_WANT_TOKEN
							: S3_WANT_NOTHING;
}

static int start_contents(struct s3_page *p)
{
	if (p->nr == S3_PAGE_KEYS)
		return wrong(p, -E2BIG, "more keys than requested");
	p->in_contents = true;
	p->has_key = p->has_size = p->has_etag = false;
	if (p->etags)
		p->etags[p->nr] = etag_parse("", 0);
	p->key[p->nr] =
		(struct s3_page_key){ .off = (uint32_t)p->names.len, .size = SHOAL_SIZE_UNKNOWN };
	return 0;
}

static int start_wanted(struct s3_page *p, enum s3_page_want want)
{
	p->want = want;
	p->text_len = 0;
	if ((want == S3_WANT_KEY && p->has_key) || (want == S3_WANT_SIZE && p->has_size) ||
	    (want == S3_WANT_ETAG && p->has_etag))
		return wrong(p, -EBADMSG, "an object with two keys, two sizes or two ETags");
	p->has_key |= want == S3_WANT_KEY;
	p->has_size |= want == S3_WANT_SIZE;
	p->has_etag |= want == S3_WANT_ETAG;
	return 0;
}

/* Skip the namespace before a colon. */
static void local_name(const char **name, size_t *len)
{
	const char *colon = memchr(*name, ':', *len);

	if (colon) {
		*len -= (size_t)(colon + 1 - *name);
		*name = colon + 1;
	}
}

static int start_element(struct s3_page *p, const char *name, size_t len)
{
	enum s3_page_want want;

	if (p->ended)
		return wrong(p, -EBADMSG, "content after its end");
	if (p->want != S3_WANT_NOTHING)
		return wrong(p, -EBADMSG, "an element inside text");
	if (len == 0)
		return wrong(p, -EBADMSG, "an element without a name");
	if (len > S3_PAGE_TAG || p->depth == S3_PAGE_DEPTH)
		return wrong(p, -E2BIG, "elements that are too long or too deep");
	p->open[p->depth].len = (uint8_t)len;
	memcpy(p->open[p->depth].name, name, len);
	local_name(&name, &len);
	if (p->depth == 0)
		p->is_error = is(name, len, "Error");
	if (p->depth == 0 && !p->is_error && !is(name, len, "ListBucketResult"))
		return wrong(p, -EBADMSG, "neither a list nor an error");
	want = want_of(p, name, len);
	if (p->depth == 1 && !p->is_error && is(name, len, "Contents")) {
		int rc = start_contents(p);

		if (rc < 0)
			return rc;
	}
	p->depth++;
	return want != S3_WANT_NOTHING ? start_wanted(p, want) : 0;
}

static void keep_text(char *to, size_t room, const char *text)
{
	size_t len = strlen(text);

	while (len > 0 && page_is_space(*text)) {
		text++;
		len--;
	}
	len = (size_t)u64_min(len, room - 1);
	memcpy(to, text, len);
	to[len] = '\0';
}

static int end_wanted(struct s3_page *p)
{
	char *text = p->text;
	size_t len = p->text_len;

	text[len] = '\0';
	if (p->want != S3_WANT_TOKEN) {
		while (len > 0 && page_is_space(text[len - 1]))
			text[--len] = '\0';
		while (page_is_space(*text))
			text++;
	}
	switch (p->want) {
	case S3_WANT_SIZE:
		if (parse_u64(text, &p->key[p->nr].size) < 0 ||
		    p->key[p->nr].size == SHOAL_SIZE_UNKNOWN)
			return wrong(p, -EBADMSG, "a malformed size");
		break;
	case S3_WANT_ETAG:
		p->etags[p->nr] = etag_parse(text, len - (size_t)(text - p->text));
		break;
	case S3_WANT_TRUNCATED:
		p->truncated = strcmp(text, "true") == 0;
		p->has_truncated = true;
		if (!p->truncated && strcmp(text, "false") != 0)
			return wrong(p, -EBADMSG, "an IsTruncated that is neither true nor false");
		break;
	case S3_WANT_ENCODING:
		p->encoded = strcmp(text, "url") == 0;
		break;
	case S3_WANT_TOKEN:
		memcpy(p->token, p->text, p->text_len + 1);
		break;
	case S3_WANT_CODE:
		keep_text(p->code, sizeof(p->code), text);
		break;
	case S3_WANT_MESSAGE:
		p->message_cut = strlen(text) >= sizeof(p->message);
		keep_text(p->message, sizeof(p->message), text);
		break;
	case S3_WANT_KEY:
	case S3_WANT_NOTHING:
		break;
	}
	p->want = S3_WANT_NOTHING;
	return 0;
}

static int end_element(struct s3_page *p, const char *name, size_t len)
{
	if (p->depth == 0 || len != p->open[p->depth - 1].len ||
	    memcmp(name, p->open[p->depth - 1].name, len) != 0)
		return wrong(p, -EBADMSG, "a mismatched end tag");
	p->depth--;
	if (p->want != S3_WANT_NOTHING)
		return end_wanted(p);
	if (p->depth == 1 && p->in_contents) {
		if (!p->has_key || p->key[p->nr].len == 0)
			return wrong(p, -EBADMSG, "an object without a key");
		buf_u8(&p->names, 0);
		if (p->names.rc < 0)
			return wrong(p, p->names.rc, "out of memory");
		p->in_contents = false;
		p->nr++;
	}
	p->ended = p->depth == 0;
	return 0;
}

/* ---- Markup ---- */

/* The '>' that ends a tag at @p, or NULL if it is not there yet. A '>' in quotes does not count. */
static const char *end_of_tag(const char *p, const char *end)
{
	const char *gt = memchr(p, '>', (size_t)(end - p));
	char quote = 0;

	if (!gt || (!memchr(p, '"', (size_t)(gt - p)) && !memchr(p, '\'', (size_t)(gt - p))))
		return gt;
	for (; p < end; p++) {
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p;
	}
	return NULL;
}

/* Names end at a space, a slash or the end of the tag. */
static const char *end_of_name(const char *p, const char *end)
{
	while (p < end && !page_is_space(*p) && *p != '/')
		p++;
	return p;
}

static int take_tag(struct s3_page *p, const char *at, const char *gt)
{
	const char *name = at + 1, *stop;
	bool empty = gt > name && gt[-1] == '/';
	int rc;

	if (*name == '/') {
		stop = end_of_name(++name, gt);
		if (!is_blank(stop, gt))
			return wrong(p, -EBADMSG, "an end tag with attributes");
		return end_element(p, name, (size_t)(stop - name));
	}
	stop = end_of_name(name, gt - empty);
	rc = start_element(p, name, (size_t)(stop - name));
	if (rc == 0 && empty)
		rc = end_element(p, name, (size_t)(stop - name));
	return rc;
}

/* "<?xml ... ?>" may name an encoding. Other processing instructions are ignored. */
static int take_instruction(struct s3_page *p, const char *at, const char *end)
{
	const char *enc = memmem(at, (size_t)(end - at), "encoding", 8);

	if (end - at < 6 || memcmp(at, "<?xml", 5) != 0 || !page_is_space(at[5]) || !enc)
		return 0;
	for (enc += 8; enc < end && (page_is_space(*enc) || *enc == '='); enc++)
		;
	if (end - enc < 7 || strncasecmp(enc + 1, "utf-8", 5) != 0 || enc[6] != *enc)
		return wrong(p, -EBADMSG, "text that is not UTF-8");
	return 0;
}

/* Parse markup that starts with '<' and is complete before @end. Returns where it ends, or NULL
 * if it is incomplete or p->rc is set. */
static const char *take_markup(struct s3_page *p, const char *at, const char *end)
{
	size_t left = (size_t)(end - at);
	const char *stop;

	if (left < 2)
		return NULL;
	if (at[1] == '?') {
		stop = memmem(at + 2, left - 2, "?>", 2);
		if (!stop)
			return NULL;
		(void)!take_instruction(p, at, stop);
		return stop + 2;
	}
	if (at[1] != '!') {
		stop = end_of_tag(at, end);
		if (!stop)
			return NULL;
		(void)!take_tag(p, at, stop);
		return stop + 1;
	}
	if (left >= 4 && memcmp(at, "<!--", 4) == 0) {
		stop = memmem(at + 4, left - 4, "-->", 3);
		return stop ? stop + 3 : NULL;
	}
	if (left >= 9 && memcmp(at, "<![CDATA[", 9) == 0) {
		stop = memmem(at + 9, left - 9, "]]>", 3);
		if (!stop)
			return NULL;
		if (p->depth == 0)
			(void)!wrong(p, -EBADMSG, "text outside its elements");
		else if (p->want != S3_WANT_NOTHING)
			(void)!put_lines(p, at + 9, stop);
		return stop + 3;
	}
	if (left >= 9 ||
	    (memcmp(at, "<!--", left < 4 ? left : 4) != 0 && memcmp(at, "<![CDATA[", left) != 0))
		(void)!wrong(p, -EBADMSG, "a document type, which S3 never sends");
	return NULL;
}

/* ---- The fast path, for the elements that most of a page consists of ---- */

static bool put_size(struct s3_page *p, const char *text, size_t len)
{
	uint64_t size = 0;

	if (len == 0 || len > 19 || p->has_size)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(text[i] - '0');

		if (digit > 9)
			return false;
		size = size * 10 + digit;
	}
	p->has_size = true;
	p->key[p->nr].size = size;
	return true;
}

/* Either "&quot;...&quot;", as servers write it, or plain quotes. */
static bool put_etag(struct s3_page *p, const char *text, size_t len)
{
	static const char quote[] = "&quot;";
	const size_t quote_len = sizeof(quote) - 1;

	if (p->has_etag)
		return false;
	if (len > 2 * quote_len && memcmp(text, quote, quote_len) == 0 &&
	    memcmp(text + len - quote_len, quote, quote_len) == 0) {
		text += quote_len;
		len -= 2 * quote_len;
	}
	p->etags[p->nr] = etag_parse(text, len);
	/* A value that seems malformed may contain references or spaces: use the general parser. */
	p->has_etag = etag_is_kept(&p->etags[p->nr]);
	return p->has_etag;
}

static bool put_key(struct s3_page *p, const char *text, size_t len)
{
	if (p->has_key || len == 0 || len > KEY_BYTES || memchr(text, '&', len) ||
	    memchr(text, '\r', len))
		return false;
	buf_append(&p->names, text, len);
	if (p->names.rc < 0)
		return false;
	p->has_key = true;
	p->key[p->nr].len = (uint32_t)len;
	return true;
}

/* An element inside <Contents> with text only, such as "<Size>17</Size>". Returns where it ends,
 * or NULL if it is incomplete or not that simple, and is left to the general parser. */
static const char *take_plain(struct s3_page *p, const char *at, const char *end)
{
	const char *name = at + 1, *stop = name, *text, *lt;
	size_t len;

	while (stop < end && *stop >= 'A' && *stop <= 'z')
		stop++;
	len = (size_t)(stop - name);
	if (stop == end || *stop != '>' || len == 0 || len > S3_PAGE_TAG)
		return NULL;
	text = stop + 1;
	lt = memchr(text, '<', (size_t)(end - text));
	if (!lt || (size_t)(end - lt) < len + 3 || lt[1] != '/' || lt[len + 2] != '>' ||
	    memcmp(lt + 2, name, len) != 0)
		return NULL;
	if (len == 3 && memcmp(name, "Key", 3) == 0 && !put_key(p, text, (size_t)(lt - text)))
		return NULL;
	if (len == 4 && memcmp(name, "Size", 4) == 0 && !put_size(p, text, (size_t)(lt - text)))
		return NULL;
	if (len == 4 && p->etags && memcmp(name, "ETag", 4) == 0 &&
	    !put_etag(p, text, (size_t)(lt - text)))
		return NULL;
	return lt + len + 3;
}

/* Parse what is complete. Returns how many bytes that was. */
static size_t page_take_whole(struct s3_page *p, const char *data, size_t len)
{
	const char *at = data, *end = data + len, *next;

	while (at < end && p->rc == 0) {
		const char *lt = *at == '<' ? at : memchr(at, '<', (size_t)(end - at));

		if (lt == at) {
			next = p->in_contents && p->depth == 2 ? take_plain(p, at, end) : NULL;
			if (!next)
				next = take_markup(p, at, end);
			if (!next)
				break;
			at = next;
			continue;
		}
		if (p->want !=
		    S3_WANT_NOTHING) { /* only complete text: a reference must not be split */
			if (!lt)
				break;
			(void)!take_text(p, at, lt);
		} else if (p->depth == 0 && !is_blank(at, lt ? lt : end)) {
			(void)!wrong(p, -EBADMSG, "not XML");
		}
		at = lt ? lt : end;
	}
	return (size_t)(at - data);
}

/* ---- A page ---- */

void s3_page_start(struct s3_page *p)
{
	p->nr = 0;
	p->names.len = 0;
	p->names.max = NAMES_BYTES;
	p->names.rc = 0;
	p->truncated = p->message_cut = false;
	p->token[0] = p->code[0] = p->message[0] = '\0';
	p->rc = 0;
	p->wrong = "";
	p->nr_bytes = 0;
	p->depth = 0;
	p->is_error = p->ended = p->in_contents = p->has_truncated = p->encoded = false;
	p->want = S3_WANT_NOTHING;
	p->text_len = p->piece_len = 0;
}

void s3_page_release(struct s3_page *p)
{
	buf_release(&p->names);
}

/* Complete markup that was split between two feeds. Returns how many new bytes that took. */
static size_t complete_piece(struct s3_page *p, const char *data, size_t len)
{
	size_t before = p->piece_len;
	size_t more = (size_t)u64_min(len, sizeof(p->piece) - before);
	size_t used;

	memcpy(p->piece + before, data, more);
	p->piece_len += more;
	used = page_take_whole(p, (const char *)p->piece, p->piece_len);
	if (p->rc == 0 && used == 0 && p->piece_len == sizeof(p->piece))
		(void)!wrong(p, -E2BIG, "markup that is too long");
	if (used > before) { /* the rest is parsed in place */
		p->piece_len = 0;
		return used - before;
	}
	p->piece_len -= used;
	memmove(p->piece, p->piece + used, p->piece_len);
	return more;
}

int s3_page_feed(struct s3_page *p, const void *data, size_t len)
{
	const char *at = data, *end = at + len;

	for (; p->nr_bytes < 3 && at < end; at++, p->nr_bytes++)
		p->piece[p->piece_len++] = (uint8_t)*at;
	if (p->nr_bytes == 3 && memcmp(p->piece, "\xef\xbb\xbf", 3) == 0)
		p->piece_len = 0; /* a UTF-8 byte order mark */
	p->nr_bytes += (uint64_t)(end - at);
	if (p->rc == 0 && p->nr_bytes > PAGE_BYTES)
		return wrong(p, -E2BIG, "more bytes than a page can have");
	while (p->rc == 0 && at < end) {
		if (p->piece_len == 0)
			at += page_take_whole(p, at, (size_t)(end - at));
		if (p->rc == 0 && at < end)
			at += complete_piece(p, at, (size_t)(end - at));
	}
	return p->rc;
}

size_t s3_page_decode_key(char *name, size_t len)
{
	size_t in = 0, out = 0;

	while (in < len && name[in] != '%' && name[in] != '+')
		in++;
	for (out = in; in < len; in++) {
		char c = name[in];

		if (c == '%') {
			int high = in + 2 < len ? text_hex_digit(name[in + 1]) : -1;
			int low = in + 2 < len ? text_hex_digit(name[in + 2]) : -1;

			if (high < 0 || low < 0)
				return SIZE_MAX;
			c = (char)(high * 16 + low);
			in += 2;
		} else if (c == '+') {
			c = ' ';
		}
		name[out++] = c;
	}
	return out;
}

static int decode_names(struct s3_page *p)
{
	for (size_t i = 0; p->encoded && i < p->nr; i++) {
		size_t len =
			s3_page_decode_key((char *)p->names.data + p->key[i].off, p->key[i].len);

		if (len == SIZE_MAX)
			return wrong(p, -EBADMSG, "a malformed encoding of a key");
		p->key[i].len = (uint32_t)len;
		p->names.data[p->key[i].off + len] = '\0';
	}
	return 0;
}

/* Whether no server leaves this byte when it encodes keys; some leave more than others do. */
static bool is_always_escaped(uint8_t c)
{
	return c <= ' ' || c > '~' || strchr("\"<>\\^`{|}", c);
}

static bool key_is_raw(const uint8_t *key, size_t len, bool *ret_changes)
{
	bool raw = false;

	for (size_t i = 0; i < len; i++) {
		*ret_changes |= key[i] == '%' || key[i] == '+';
		raw |= is_always_escaped(key[i]);
		raw |= key[i] == '%' && (i + 2 >= len || text_hex_digit((char)key[i + 1]) < 0 ||
					 text_hex_digit((char)key[i + 2]) < 0);
	}
	return raw;
}

size_t s3_page_find_encoded(const struct s3_page *p, bool *ret_raw)
{
	size_t first = p->nr;

	*ret_raw = false;
	for (size_t i = 0; p->encoded && i < p->nr; i++) {
		bool changes = false;

		*ret_raw |= key_is_raw(p->names.data + p->key[i].off, p->key[i].len, &changes);
		if (changes && first == p->nr)
			first = i;
	}
	return first;
}

int s3_page_check(struct s3_page *p, struct shoal_err *err)
{
	if (p->rc == 0 && (!p->ended || p->piece_len > 0))
		(void)!wrong(p, -EBADMSG, "no end: it was truncated");
	if (p->rc == 0 && p->is_error && p->message_cut)
		text_mark_truncated(p->message);
	if (p->rc == 0 && p->is_error)
		return err_set(err, -EIO, "the server reported %s: %s", p->code, p->message);
	if (p->rc == 0 && !p->has_truncated)
		(void)!wrong(p, -EBADMSG, "no IsTruncated element");
	if (p->rc == -ENOMEM)
		return err_set(err, -ENOMEM, "out of memory");
	return p->rc < 0 ? err_set(err, p->rc, "a page of the list has %s", p->wrong) : 0;
}

int s3_page_decode(struct s3_page *p, struct shoal_err *err)
{
	int rc = decode_names(p);

	return rc < 0 ? err_set(err, rc, "a page of the list has %s", p->wrong) : 0;
}
