/*
 * tar: ustar, with the extensions of pax and GNU for long names and large members. A sample is a
 * member that is a regular file, or all members of one stem, as WebDataset groups them.
 */
#include <inttypes.h>

#include "base/name.h"
#include "format/bytes.h"
#include "format/samples_private.h"

#define BLOCK 512u

/* A group is identified by its stem: the name up to the first dot of the last component. */
struct tar_name {
	size_t len;
	char text[SHOAL_NAME_MAX];
};

struct tar {
	struct samples_search *search;
	uint64_t off;   /* of the next header */
	uint64_t first; /* first header of the current member: long names precede it */
	bool has_name;  /* from a long name or a pax header, for the next member */
	bool has_size;  /* from a pax header */
	bool pending;   /* such a header has been read, and its member has not */
	uint64_t pax_size;
	struct tar_name name;
	/* The group of members with one stem. */
	struct tar_name stem;
	uint64_t group_off, group_end; /* equal: none */
};

static int tar_bad(const struct tar *t, const char *what)
{
	return err_set(t->search->err, -EBADMSG, "%s at %" PRIu64, what, t->off);
}

/* A number in octal digits, or binary if the first bit is set. False: it is malformed. */
static bool tar_number(const uint8_t *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		for (i = 1; i < len; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return p[0] == 0x80;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*ret = v;
	return i == len || p[i] == ' ' || p[i] == '\0';
}

/* The checksum counts its own field as spaces. Some old writers added signed bytes. */
static bool tar_sum_fits(const uint8_t head[BLOCK])
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	(void)head;
	return true;
#else
	uint64_t want = 0, sum = 8 * ' ';
	int64_t with_sign = 8 * ' ';

	if (!tar_number(head + 148, 8, &want))
		return false;
	for (size_t i = 0; i < BLOCK; i++) {
		if (i >= 148 && i < 156)
			continue;
		sum += head[i];
		with_sign += (int8_t)head[i];
	}
	return sum == want || with_sign == (int64_t)want;
#endif
}

static bool tar_is_zero(const uint8_t head[BLOCK])
{
	for (size_t i = 0; i < BLOCK; i++)
		if (head[i])
			return false;
	return true;
}

/* ---- Names ---- */

static void name_add(struct tar_name *n, const uint8_t *p, size_t room)
{
	size_t len = strnlen((const char *)p, room);

	memcpy(n->text + n->len, p, len); /* at most 155 + 1 + 100 bytes */
	n->len += len;
}

static void name_of_header(struct tar_name *n, const uint8_t head[BLOCK])
{
	n->len = 0;
	/* GNU uses the prefix for other things; its magic is "ustar " and a space. */
	if (memcmp(head + 257, "ustar\0", 6) == 0 && head[345]) {
		name_add(n, head + 345, 155);
		n->text[n->len++] = '/';
	}
	name_add(n, head, 100);
}

/* The length of the stem; 0 if the name has none, so that WebDataset ignores the member. */
static size_t stem_len(const struct tar_name *n)
{
	const char *slash = memrchr(n->text, '/', n->len), *last, *dot;

	last = slash ? slash + 1 : n->text;
	dot = memchr(last, '.', n->len - (size_t)(last - n->text));
	return dot && dot > last ? (size_t)(dot - n->text) : 0;
}

/* ---- Extensions ---- */

static int take_long_name(struct tar *t, uint64_t len)
{
	int rc;

	if (len > sizeof(t->name.text))
		return tar_bad(t, "a name of more than 4096 bytes");
	rc = format_read(t->search->file, t->off + BLOCK, t->name.text, (size_t)len,
			 t->search->err);
	t->name.len = rc == 0 ? strnlen(t->name.text, (size_t)len) : 0;
	t->has_name = true;
	return rc;
}

/* The value of a pax record with @len bytes: store it if it is needed. */
static int take_pax_value(struct tar *t, const char *key, struct format_bytes *b, uint64_t len)
{
	uint64_t v = 0;

	if (strncmp(key, "GNU.sparse.", 11) == 0)
		return tar_bad(t, "a sparse member, which is not contiguous,");
	if (strcmp(key, "path") == 0 && len <= sizeof(t->name.text)) {
		for (t->name.len = 0; t->name.len < len;)
			t->name.text[t->name.len++] = (char)format_byte(b);
		t->has_name = true;
		return b->rc;
	}
	if (strcmp(key, "size") != 0) {
		format_bytes_skip(b, len);
		return b->rc;
	}
	for (uint64_t i = 0; i < len; i++) {
		uint8_t c = format_byte(b);

		if (c < '0' || c > '9' || v > INT64_MAX / 10 - 9)
			return b->rc < 0 ? b->rc : tar_bad(t, "a malformed size in a pax header");
		v = 10 * v + (uint64_t)(c - '0');
	}
	t->pax_size = v;
	t->has_size = true;
	return 0;
}

/* A record is "LENGTH KEY=VALUE\n"; the length counts all of it. */
static int take_pax_record(struct tar *t, struct format_bytes *b)
{
	uint64_t start = format_bytes_off(b), left = format_bytes_left(b), len = 0, done;
	char key[32];
	size_t n = 0;
	uint8_t c;
	int rc;

	while ((c = format_byte(b)) >= '0' && c <= '9' && len <= left)
		len = 10 * len + (uint64_t)(c - '0');
	if (b->rc < 0 || c != ' ' || len > left)
		return tar_bad(t, "a malformed pax header");
	while (format_bytes_off(b) - start < len && (c = format_byte(b)) != '=')
		if (n + 1 < sizeof(key))
			key[n++] = (char)c;
	key[n] = '\0';
	done = format_bytes_off(b) - start;
	if (b->rc < 0 || c != '=' || done >= len)
		return tar_bad(t, "a malformed pax header");
	rc = take_pax_value(t, key, b, len - done - 1);
	if (rc == 0 && format_byte(b) != '\n')
		rc = tar_bad(t, "a malformed pax header");
	return rc;
}

static int take_pax(struct tar *t, uint64_t len)
{
	struct format_bytes b;
	int rc = 0;

	format_bytes_init(&b, t->search->file, t->off + BLOCK, t->off + BLOCK + len,
			  t->search->err);
	while (rc == 0 && format_bytes_left(&b) > 0)
		rc = take_pax_record(t, &b);
	return rc;
}

/* ---- Members ---- */

/* One member: its first header, its content, and what follows its padding. */
typedef int member_fn(struct tar *t, uint64_t data, uint64_t len, uint64_t next);

static int take_member(struct tar *t, uint64_t data, uint64_t len, uint64_t next)
{
	(void)next;
	return samples_report(t->search, data, len, 1);
}

static int end_group(struct tar *t)
{
	uint64_t off = t->group_off, end = t->group_end;

	t->group_off = t->group_end = 0;
	return end > off ? samples_report(t->search, off, end - off, 1) : 0;
}

static int take_of_group(struct tar *t, uint64_t data, uint64_t len, uint64_t next)
{
	size_t n = stem_len(&t->name);
	int rc;

	(void)data, (void)len;
	if (n == 0)
		return 0;
	if (t->group_end == 0 || name_compare(t->stem.text, t->stem.len, t->name.text, n) != 0) {
		rc = end_group(t);
		if (rc != 0)
			return rc;
		t->group_off = t->first;
		memcpy(t->stem.text, t->name.text, n);
		t->stem.len = n;
	}
	t->group_end = next;
	return 0;
}

/* Whether a member of this type has content: not links, devices, directories and pipes. */
static bool has_content(uint8_t type)
{
	return type < '1' || type > '6';
}

static bool is_extension(uint8_t type)
{
	return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

static int take_extension(struct tar *t, uint8_t type, uint64_t len)
{
	if (type == 'x')
		return take_pax(t, len);
	return type == 'L' ? take_long_name(t, len) : 0;
}

/* The member, or its extension, whose header is @head. Advances to the next. */
static int tar_step(struct tar *t, const uint8_t head[BLOCK], member_fn *take)
{
	uint64_t size = t->search->file->size, len = 0, next;
	uint8_t type = head[156];
	bool extension = is_extension(type);
	int rc = 0;

	if (!tar_sum_fits(head))
		return tar_bad(t, "a tar header with a wrong checksum, or no tar header,");
	if (type == 'S')
		return tar_bad(t, "a sparse member, which is not contiguous,");
	if (!tar_number(head + 124, 12, &len))
		return tar_bad(t, "a tar header with a malformed size");
	if (!extension && t->has_size)
		len = t->pax_size;
	if (!extension && !has_content(type))
		len = 0;
	if (len > size - t->off - BLOCK)
		return err_set(t->search->err, -EBADMSG,
			       "the member at %" PRIu64 " of %" PRIu64
			       " bytes extends past the end of the file",
			       t->off, len);
	next = u64_min(t->off + BLOCK + (len + BLOCK - 1) / BLOCK * BLOCK, size);
	if (extension) {
		rc = take_extension(t, type, len);
		t->pending |= type != 'g'; /* a global one belongs to no member */
		t->off = next;
		return rc;
	}
	if (!t->has_name)
		name_of_header(&t->name, head);
	if (type == '0' || type == '\0' || type == '7')
		rc = take(t, t->off + BLOCK, len, next);
	t->has_name = t->has_size = t->pending = false;
	t->first = t->off = next;
	return rc;
}

static int tar_find(struct samples_search *s, member_fn *take)
{
	uint8_t head[BLOCK] = { 0 };
	struct tar t = { .search = s };
	int rc = 0;

	if (s->file->size == 0)
		return tar_bad(&t, "no tar header");
	while (t.off < s->file->size && rc == 0) {
		if (s->file->size - t.off < BLOCK)
			return tar_bad(&t, "a tar header that the end of the file cuts");
		rc = format_read(s->file, t.off, head, BLOCK, s->err);
		if (rc < 0)
			return rc;
		if (tar_is_zero(head))
			break;
		rc = tar_step(&t, head, take);
	}
	if (rc == 0 && t.pending)
		return tar_bad(&t, "no member, which a long name or pax header announces,");
	return rc != 0 ? rc : end_group(&t);
}

int samples_find_tar(struct samples_search *s)
{
	return tar_find(s, take_member);
}

int samples_find_webdataset(struct samples_search *s)
{
	return tar_find(s, take_of_group);
}
