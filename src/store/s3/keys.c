#include "store/s3/keys.h"

#include <string.h>

#include "base/name.h"

/* Positions in a name after this many numbers are finer than any page. */
#define TOTAL_MAX (UINT64_C(1) << 52)

#define BIT_OF(c) (UINT64_C(1) << ((c)&63))

typedef uint64_t byte_set[4];

static bool has(const uint64_t *set, unsigned c)
{
	return set[c >> 6] & BIT_OF(c);
}

static unsigned keys_count(const uint64_t *set)
{
	unsigned nr = 0;

	for (int i = 0; i < 4; i++)
		nr += (unsigned)__builtin_popcountll(set[i]);
	return nr;
}

/* How many bytes of the set are below @c. */
static unsigned count_below(const uint64_t *set, unsigned c)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < c >> 6; i++)
		nr += (unsigned)__builtin_popcountll(set[i]);
	return nr + (unsigned)__builtin_popcountll(set[c >> 6] & (BIT_OF(c) - 1));
}

static unsigned nth(const uint64_t *set, unsigned n)
{
	for (unsigned i = 0; i < 4; i++) {
		unsigned here = (unsigned)__builtin_popcountll(set[i]);
		uint64_t bits = set[i];

		if (n >= here) {
			n -= here;
			continue;
		}
		while (n-- > 0)
			bits &= bits - 1;
		return i * 64 + (unsigned)__builtin_ctzll(bits);
	}
	return 255;
}

/* ---- Learning ---- */

void s3_keys_learn(struct s3_keys *k, const uint8_t *name, size_t len)
{
	len = (size_t)u64_min(len, S3_KEYS_PLACES);
	for (size_t i = 0; i < len; i++) {
		uint64_t *word = &k->seen[i][name[i] >> 6], bit = BIT_OF(name[i]);

		if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
			continue;
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
		__atomic_fetch_add(&k->version, 1, __ATOMIC_RELEASE);
	}
}

/* Sets of bytes below 64, and of those from 64 on. */
#define DIGITS UINT64_C(0x03ff000000000000)
#define UPPER  UINT64_C(0x0000000007fffffe)
#define LOWER  (UPPER << 32)
#define A_TO_F (UINT64_C(0x7e) << 32)

/* Whether the set has letters and digits only, and is not empty. */
static bool keys_is_word(const uint64_t *set)
{
	return (set[0] | set[1]) && !(set[0] & ~DIGITS) && !(set[1] & ~(UPPER | LOWER)) &&
	       !set[2] && !set[3];
}

static bool has_digit(const uint64_t *set)
{
	return set[0] & DIGITS;
}

/* One digit stands for all digits; digits and a to f stand for all hex digits. */
static void expand(uint64_t *set)
{
	if (!has_digit(set))
		return;
	set[0] |= DIGITS;
	if ((set[1] & A_TO_F) && !(set[1] & LOWER & ~A_TO_F))
		set[1] |= A_TO_F;
}

static void join(uint64_t *to, const uint64_t *from)
{
	for (int i = 0; i < 4; i++)
		to[i] |= from[i];
}

/* The bytes seen at a position. False: none, because all names are shorter. */
static bool keys_load(const struct s3_keys *k, size_t place, uint64_t *set)
{
	for (int i = 0; i < 4; i++)
		set[i] = __atomic_load_n(&k->seen[place][i], __ATOMIC_RELAXED);
	return set[0] | set[1] | set[2] | set[3];
}

/*
 * The bytes that may occur at each position: those seen there and, within a word (of letters and
 * digits), those that vary later in it. So the first positions of a name, for which a page of
 * the list shows one byte, are assumed to vary like its last ones.
 */
static void alphabets(const struct s3_keys *k, uint64_t (*set)[4])
{
	byte_set further = { 0 };
	size_t places = 0;

	while (places < S3_KEYS_PLACES && keys_load(k, places, set[places]))
		places++;
	for (size_t i = places; i-- > 0;) {
		byte_set seen;

		memcpy(seen, set[i], sizeof(seen));
		if (!keys_is_word(seen)) {
			memset(further, 0, sizeof(further));
			expand(set[i]);
			continue;
		}
		if (keys_count(seen) > 1 ||
		    has_digit(seen)) /* otherwise a letter that never varies */
			join(further, seen);
		expand(further);
		join(set[i], further);
	}
}

/* ---- The scale ---- */

void s3_scale_under(struct s3_scale *s, const struct s3_keys *k, const uint8_t *head, size_t len)
{
	s->head = head;
	s->shared = len;
	s->nr = 0;
	s->total = 1;
	memset(s->set, 0, sizeof(s->set));
	alphabets(k, s->set);
	for (size_t i = s->shared; i < S3_KEYS_PLACES; i++) {
		unsigned radix = keys_count(s->set[i]);

		if (radix == 0 || s->total * radix > TOTAL_MAX)
			break;
		s->total *= radix;
		s->radix[s->nr++] = (uint16_t)radix;
	}
}

void s3_scale_init(struct s3_scale *s, const struct s3_keys *k, const uint8_t *lo, size_t lo_len,
		   const uint8_t *hi, size_t hi_len)
{
	s3_scale_under(s, k, lo, hi ? name_shared(lo, lo_len, hi, hi_len) : 0);
}

uint64_t s3_scale_width(const struct s3_scale *s, size_t len)
{
	uint64_t width = 1;

	for (size_t i = len > s->shared ? len - s->shared : 0; i < s->nr; i++)
		width *= s->radix[i];
	return width;
}

uint64_t s3_scale_at(const struct s3_scale *s, const uint8_t *name, size_t len)
{
	int before = memcmp(name, s->head, u64_min(len, s->shared));
	uint64_t at = 0;
	bool exact = true;

	if (before != 0 || len < s->shared)
		return before > 0 ? s->total : 0;
	for (size_t i = 0; i < s->nr; i++) {
		const uint64_t *set = s->set[s->shared + i];
		unsigned digit = 0;

		exact = exact && s->shared + i < len;
		if (exact) {
			digit = count_below(set, name[s->shared + i]);
			exact = has(set,
				    name[s->shared + i]); /* otherwise everything after it is 0 */
		}
		at = at * s->radix[i] + digit;
	}
	return u64_min(at, s->total);
}

size_t s3_scale_name(const struct s3_scale *s, uint64_t at, uint8_t *name)
{
	size_t len = s->shared;

	memcpy(name, s->head, s->shared);
	for (size_t i = s->nr; i-- > 0;) {
		unsigned digit = (unsigned)(at % s->radix[i]);

		at /= s->radix[i];
		name[s->shared + i] = (uint8_t)nth(s->set[s->shared + i], digit);
		if (digit > 0 && len == s->shared)
			len = s->shared + i + 1; /* zeros after it add nothing */
	}
	return len;
}

/* ---- UTF-8 ---- */

/* Length of a character that begins with @c, and the range of its second byte. 0: invalid. */
static size_t char_bytes(uint8_t c, uint8_t *ret_low, uint8_t *ret_high)
{
	*ret_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	*ret_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	if (c < 0x80)
		return 1;
	return c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
}

size_t s3_text_len(const uint8_t *name, size_t len)
{
	size_t at = 0, n, i;
	uint8_t low, high;

	while (at < len) {
		n = char_bytes(name[at], &low, &high);
		for (i = 1; i < n && i < len - at; i++) {
			if (name[at + i] < low || name[at + i] > high)
				break;
			low = 0x80;
			high = 0xbf;
		}
		if (n == 0 || i < n)
			break;
		at += n;
	}
	return at;
}

size_t s3_text_mend(uint8_t *name, size_t len)
{
	size_t at = s3_text_len(name, len), n;
	uint8_t low, high;

	if (at == len)
		return len;
	n = char_bytes(name[at], &low, &high);
	if (n > SHOAL_NAME_MAX - at)
		return at;
	for (size_t i = 1; i < n; i++) {
		if (at + i < len && (name[at + i] < low || name[at + i] > high))
			len = at + i;
		if (at + i >= len)
			name[at + i] = low;
		low = 0x80;
		high = 0xbf;
	}
	return at + n;
}
