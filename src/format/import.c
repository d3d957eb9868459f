#include "format/import.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/npy.h"

/* ---- Numbers ---------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

static bool parse_whole(const char *text, size_t len, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)text[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*ret_value = value;
	return true;
}

static int parse_real(const char *text, size_t len, double *ret_value)
{
	char copy[64], *end; /* longer than any number that people write */

	if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len) || text[0] == ' ' ||
	    text[0] == '\t')
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*ret_value = strtod(copy, &end);
	return *end == '\0' ? 0 : -EINVAL;
}

int import_number_parse(const char *text, size_t len, struct import_number *ret_number)
{
	struct import_number n = { .kind = IMPORT_UNSIGNED };

	while (len && (text[len - 1] == ' ' || text[len - 1] == '\t' || text[len - 1] == '\r'))
		len--;
	for (; len && (*text == ' ' || *text == '\t'); text++)
		len--;
	if (is_word(text, len, "true") || is_word(text, len, "True"))
		n.whole = 1;
	else if (is_word(text, len, "false") || is_word(text, len, "False"))
		n.whole = 0;
	else if (len > 1 && text[0] == '-' && parse_whole(text + 1, len - 1, &n.whole))
		n.kind = n.whole ? IMPORT_NEGATIVE : IMPORT_UNSIGNED;
	else if (!parse_whole(text, len, &n.whole)) {
		n.kind = IMPORT_REAL;
		if (parse_real(text, len, &n.real) < 0)
			return -EINVAL;
	}
	*ret_number = n;
	return 0;
}

static double real_of(const struct import_number *n)
{
	if (n->kind == IMPORT_REAL)
		return n->real;
	return n->kind == IMPORT_NEGATIVE ? -(double)n->whole : (double)n->whole;
}

/* Its value as a whole number, if it is one: 3.0 counts as 3. */
static bool as_whole(const struct import_number *n, struct import_number *ret_whole)
{
	*ret_whole = *n;
	if (n->kind != IMPORT_REAL)
		return true;
	if (!(n->real > -9.2e18 && n->real < 1.8e19))
		return false;
	ret_whole->kind = n->real < 0 ? IMPORT_NEGATIVE : IMPORT_UNSIGNED;
	ret_whole->whole = (uint64_t)(n->real < 0 ? -n->real : n->real);
	return real_of(ret_whole) == n->real;
}

static int store_unsigned(const struct import_number *n, uint64_t most, unsigned width, void *value)
{
	struct le64 bytes;
	struct import_number whole;

	if (!as_whole(n, &whole) || whole.kind != IMPORT_UNSIGNED || whole.whole > most)
		return -ERANGE;
	bytes = le64_of(whole.whole);
	memcpy(value, bytes.b, width);
	return 0;
}

static int store_signed(const struct import_number *n, void *value)
{
	struct import_number whole;
	bool negative;

	if (!as_whole(n, &whole))
		return -ERANGE;
	negative = whole.kind == IMPORT_NEGATIVE;
	if (whole.whole > (UINT64_C(1) << 63) - !negative)
		return -ERANGE;
	le64_store(value, negative ? 0 - whole.whole : whole.whole);
	return 0;
}

int import_number_store(const struct import_number *number, enum shoal_column_type type,
			void *value)
{
	double large = real_of(number);
	float small = (float)large;

	switch (type) {
	case SHOAL_BIT:
		return store_unsigned(number, 1, 1, value);
	case SHOAL_U8:
		return store_unsigned(number, UINT8_MAX, 1, value);
	case SHOAL_U16:
		return store_unsigned(number, UINT16_MAX, 2, value);
	case SHOAL_U32:
		return store_unsigned(number, UINT32_MAX, 4, value);
	case SHOAL_U64:
		return store_unsigned(number, UINT64_MAX, 8, value);
	case SHOAL_I64:
		return store_signed(number, value);
	case SHOAL_F32:
		memcpy(value, &small, sizeof(small));
		return 0;
	case SHOAL_F64:
		memcpy(value, &large, sizeof(large));
		return 0;
	default:
		return -ERANGE;
	}
}

/* ---- CSV -------------------------------------------------------------------------------- */

/* Unquote the field that starts at line[*at], in place. */
static int quoted_field(char *line, size_t len, size_t *at, struct import_field *ret_field)
{
	size_t in = *at + 1, out = *at;

	*ret_field = (struct import_field){ .text = line + out };
	for (;; in++) {
		if (in >= len)
			return -EINVAL;
		if (line[in] == '"' && (in + 1 >= len || line[in + 1] != '"'))
			break;
		in += line[in] == '"';
		line[out++] = line[in];
	}
	ret_field->len = (size_t)(line + out - ret_field->text);
	in++;
	if (in < len && line[in] != ',')
		return -EINVAL;
	*at = in;
	return 0;
}

int import_csv_split(char *line, size_t len, struct import_field *fields, int room)
{
	size_t at = 0;
	int nr = 0;

	if (len && line[len - 1] == '\r')
		len--;
	for (;;) {
		struct import_field field = { .text = line + at };

		if (at < len && line[at] == '"') {
			int rc = quoted_field(line, len, &at, &field);

			if (rc < 0)
				return rc;
		} else {
			while (at < len && line[at] != ',')
				at++;
			field.len = (size_t)(line + at - field.text);
		}
		if (nr < room)
			fields[nr] = field;
		nr++;
		if (at >= len)
			return nr;
		at++; /* the comma; a field follows it, an empty one at the end of the line */
	}
}

/* ---- NumPy ------------------------------------------------------------------------------ */

#define NPY_HEADER_MAX 65536u /* far longer than the header of an array of one dimension */

uint64_t import_npy_header_len(const uint8_t *bytes, size_t len)
{
	size_t first = 0, text_len = 0;

	if (len < 12 || !format_npy_begin(bytes, &first, &text_len))
		return 0;
	return (uint64_t)first + text_len;
}

static bool set_type(const struct format_npy *npy, struct import_array *a)
{
	static const struct {
		char letter;
		unsigned width;
		enum shoal_column_type type;
	} known[] = {
		{ 'b', 1, SHOAL_BIT }, { 'u', 1, SHOAL_U8 },  { 'u', 2, SHOAL_U16 },
		{ 'u', 4, SHOAL_U32 }, { 'u', 8, SHOAL_U64 }, { 'i', 1, SHOAL_I64 },
		{ 'i', 2, SHOAL_I64 }, { 'i', 4, SHOAL_I64 }, { 'i', 8, SHOAL_I64 },
		{ 'f', 4, SHOAL_F32 }, { 'f', 8, SHOAL_F64 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (npy->kind != known[i].letter || npy->item_len != known[i].width ||
		    npy->order != (known[i].width == 1 ? '|' : '<'))
			continue;
		a->letter = known[i].letter;
		a->width = known[i].width;
		a->type = known[i].type;
		return true;
	}
	return false;
}

/* The text of a whole header. */
static int parse_header(const char *text, struct import_array *a, struct shoal_err *err)
{
	struct format_npy npy;
	bool parsed = format_npy_parse(text, &npy);
	if (!set_type(&npy, a))
		return err_set(
			err, -EBADMSG,
			"the array's values are not little-endian numbers or booleans of 1 to 8 "
			"bytes: convert it with .astype()");
	if (!parsed || npy.nr_dims != 1)
		return err_set(err, -EBADMSG,
			       "the array must have one dimension: save it with .reshape(-1)");
	a->nr = npy.shape[0];
	return 0;
}

int import_npy_parse(const uint8_t *bytes, size_t len, struct import_array *ret_array,
		     struct shoal_err *err)
{
	uint64_t header = import_npy_header_len(bytes, len);
	size_t start = header && bytes[6] == 1 ? 10 : 12;
	struct import_array a = { .data_off = header };
	char *text;
	int rc;

	if (!header && len >= 12 && memcmp(bytes, "\x93NUMPY", 6) == 0)
		return err_set(err, -EBADMSG, "unknown version %u of the NumPy format", bytes[6]);
	if (!header)
		return err_set(err, -EBADMSG, "not a NumPy file: wrong magic number");
	if (header > len || header > NPY_HEADER_MAX)
		return err_set(err, -EBADMSG, "the NumPy file is truncated or damaged");
	text = strndup((const char *)bytes + start, (size_t)header - start);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	rc = parse_header(text, &a, err);
	free(text);
	if (rc == 0)
		*ret_array = a;
	return rc;
}

struct import_number import_npy_number(const struct import_array *array, const uint8_t *bytes)
{
	struct import_number n = { .kind = IMPORT_UNSIGNED };
	unsigned bits = 8 * array->width;
	float small;

	assert(array->width >= 1 && array->width <= 8);
	if (array->letter == 'f') {
		n.kind = IMPORT_REAL;
		memcpy(&n.real, bytes, array->width == 8 ? 8 : 0);
		memcpy(&small, bytes, sizeof(small));
		n.real = array->width == 8 ? n.real : (double)small;
		return n;
	}
	for (unsigned i = 0; i < array->width; i++)
		n.whole |= (uint64_t)bytes[i] << 8 * i;
	if (array->letter == 'b') {
		n.whole = n.whole != 0;
	} else if (array->letter == 'i' && n.whole >> (bits - 1) & 1) {
		n.kind = IMPORT_NEGATIVE;
		n.whole = 0 - n.whole; /* 64-bit numbers are complete; for shorter ones clear the
					  high bits */
		if (bits < 64)
			n.whole &= (UINT64_C(1) << bits) - 1;
	}
	return n;
}
