#include "store/posix/unit.h"

#include <string.h>

#include "base/text.h"
#include "store/posix/posix.h"

size_t store_posix_unit(struct store *s, const char *name, size_t len, void *unit)
{
	uint8_t *p = unit;

	(void)s;
	p[0] = 'D';
	memcpy(p + 1, name, len);
	if (len > 0)
		p[++len] = '/';
	return len + 1;
}

bool store_posix_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			    size_t *ret_len)
{
	const char *p = unit;

	(void)s;
	if (len > 0 && *p != 'D' && *p != 'd')
		return false;
	*ret_name = len > 0 ? p + 1 : "";
	*ret_len = len > 0 ? len - 1 : 0;
	return true;
}

bool posix_unit_parse(struct span *span, uint8_t *ret_kind, struct span *ret_path)
{
	uint8_t kind = span_left(span) ? span_u8(span) : 'D';
	bool whole = kind == 'D' || kind == 'd';
	uint64_t len = whole ? span_left(span) : span_varint(span);
	const uint8_t *path = span_bytes(span, len);

	if (span->bad || !strchr("DdSNnHh", kind) || kind == '\0' || len > SHOAL_NAME_MAX - 1)
		return false;
	if (len > 0 && path[--len] != '/')
		return false;
	/* No listing creates such a unit. */
	if (len > 0 && (path[0] == '/' || memchr(path, 0, len)))
		return false;
	if (path_goes_up((const char *)path, len))
		return false;
	*ret_kind = kind;
	*ret_path = (struct span){ .p = path, .end = path + len };
	return true;
}
