#include "index/provenance.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

/* The limit of a catalog, which is less than a section's. */
#define TEXT_MAX (1u << 20)

/* ---- Writing ---- */

static void put_line(struct buf *b, const char *key, const char *value)
{
	static const char hex[] = "0123456789ABCDEF";

	buf_append(b, key, strlen(key));
	buf_u8(b, ' ');
	for (; *value; value++) {
		uint8_t c = (uint8_t)*value;

		if (c > 0x20 && c < 0x7f && c != '%') {
			buf_u8(b, c);
		} else {
			buf_u8(b, '%');
			buf_u8(b, (uint8_t)hex[c >> 4]);
			buf_u8(b, (uint8_t)hex[c & 15]);
		}
	}
	buf_u8(b, '\n');
}

char *index_provenance_text(const struct index_provenance *l)
{
	struct buf b = { .max = TEXT_MAX };
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64, l->started);
	put_line(&b, "started", number);
	snprintf(number, sizeof(number), "%" PRIu64, l->inode);
	put_line(&b, "inode", number);
	snprintf(number, sizeof(number), "%" PRIu64, l->nr_unreadable);
	put_line(&b, "unreadable", number);
	snprintf(number, sizeof(number), "%" PRIu64, l->nr_foreign);
	put_line(&b, "foreign", number);
	put_line(&b, "sizes", l->sizes ? "1" : "0");
	put_line(&b, "follow", l->follow ? "1" : "0");
	put_line(&b, "one-file-system", l->one_fs ? "1" : "0");
	if (l->etags)
		put_line(&b, "etags", "1");
	if (l->samples)
		put_line(&b, "samples", l->samples);
	for (size_t i = 0; i < l->nr_include; i++)
		put_line(&b, "include", l->include[i]);
	for (size_t i = 0; i < l->nr_exclude; i++)
		put_line(&b, "exclude", l->exclude[i]);
	buf_u8(&b, 0);
	if (b.rc < 0) {
		buf_release(&b);
		return NULL;
	}
	return (char *)b.data;
}

/* ---- Reading ---- */

/* In place. False if it is malformed. */
static bool unescape(char *value)
{
	char *to = value;

	for (const char *p = value; *p; p++) {
		if (*p == '%') {
			int hi = text_hex_digit(p[1]), lo = hi < 0 ? -1 : text_hex_digit(p[2]);

			if (lo < 0 || hi * 16 + lo == 0)
				return false;
			*to++ = (char)(hi * 16 + lo);
			p += 2;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
	return true;
}

static bool parse_flag(const char *value, bool *ret_flag)
{
	*ret_flag = value[0] == '1';
	return (value[0] == '0' || value[0] == '1') && !value[1];
}

/* Lines with an unknown key are from a later version, and are ignored. */
static bool parse_line(struct index_provenance *l, size_t nr_lines, const char *key, char *value)
{
	if (!unescape(value))
		return false;
	if (strcmp(key, "started") == 0)
		return parse_u64(value, &l->started) == 0;
	if (strcmp(key, "inode") == 0)
		return parse_u64(value, &l->inode) == 0;
	if (strcmp(key, "foreign") == 0)
		return parse_u64(value, &l->nr_foreign) == 0;
	if (strcmp(key, "unreadable") == 0)
		return parse_u64(value, &l->nr_unreadable) == 0;
	if (strcmp(key, "sizes") == 0)
		return parse_flag(value, &l->sizes);
	if (strcmp(key, "follow") == 0)
		return parse_flag(value, &l->follow);
	if (strcmp(key, "one-file-system") == 0)
		return parse_flag(value, &l->one_fs);
	if (strcmp(key, "etags") == 0)
		return parse_flag(value, &l->etags);
	if (strcmp(key, "samples") == 0)
		l->samples = value;
	else if (strcmp(key, "include") == 0)
		l->patterns[l->nr_include++] = value;
	else if (strcmp(key, "exclude") == 0)
		l->patterns[nr_lines + l->nr_exclude++] = value;
	return true;
}

static size_t count_lines(const char *text)
{
	size_t nr = 0;

	for (; (text = strchr(text, '\n')) != NULL; text++)
		nr++;
	return nr;
}

static bool parse_lines(struct index_provenance *l, size_t nr_lines)
{
	char *line = l->text;

	for (size_t i = 0; i < nr_lines; i++) {
		char *end = strchr(line, '\n'), *space;

		*end = '\0';
		space = strchr(line, ' ');
		if (!space)
			return false;
		*space = '\0';
		if (!parse_line(l, nr_lines, line, space + 1))
			return false;
		line = end + 1;
	}
	l->include = l->patterns;
	l->exclude = l->patterns + nr_lines;
	return *line == '\0' && l->started > 0;
}

int index_provenance_parse(const char *text, size_t len, struct index_provenance *ret_listing,
			   struct shoal_err *err)
{
	struct index_provenance l = { 0 };
	size_t nr_lines;

	if (len == 0)
		return err_set(err, -ENODATA, "it was not made by listing a directory");
	l.text = strndup(text, len);
	if (!l.text)
		return err_set(err, -ENOMEM, "out of memory");
	nr_lines = count_lines(l.text);
	l.patterns = calloc(2 * nr_lines + 1, sizeof(*l.patterns));
	if (!l.patterns || !parse_lines(&l, nr_lines)) {
		bool no_memory = !l.patterns;

		index_provenance_release(&l);
		return no_memory
			       ? err_set(err, -ENOMEM, "out of memory")
			       : err_set(err, -EBADMSG, "damaged catalog: section LIST is invalid");
	}
	*ret_listing = l;
	return 0;
}

void index_provenance_release(struct index_provenance *l)
{
	free(l->text);
	free(l->patterns);
	*l = (struct index_provenance){ 0 };
}

static bool same_patterns(const char *const *a, size_t nr_a, const char *const *b, size_t nr_b)
{
	bool same = nr_a == nr_b;

	for (size_t i = 0; same && i < nr_a; i++)
		same = strcmp(a[i], b[i]) == 0;
	return same;
}

bool index_provenance_same(const struct index_provenance *a, const struct index_provenance *b)
{
	return a->sizes == b->sizes && a->follow == b->follow && a->one_fs == b->one_fs &&
	       a->etags == b->etags &&
	       same_patterns(a->include, a->nr_include, b->include, b->nr_include) &&
	       same_patterns(a->exclude, a->nr_exclude, b->exclude, b->nr_exclude);
}
