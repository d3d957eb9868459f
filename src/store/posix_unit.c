#include "store/posix_unit.h"

#include <string.h>

#include "base/text.h"
#include "store/posix.h"

size_t store_posix_unit(struct shoal_store *s, const char *name, size_t len, void *unit)
{
	uint8_t *p = unit;

	(void)s;
	p[0] = 'D';
	memcpy(p + 1, name, len);
	return len + 1;
}

bool store_posix_unit_dir(struct shoal_store *s, const void *unit, size_t len,
			  const char **ret_name, size_t *ret_len)
{
	const char *p = unit;

	(void)s;
	if (len > 0 && *p != 'D' && *p != 'd')
		return false;
	*ret_name = len > 0 ? p + 1 : "";
	*ret_len = len > 0 ? len - 1 : 0;
	return true;
}

bool posix_unit_parse(struct shoal_span *span, uint8_t *ret_kind, struct shoal_span *ret_path)
{
	uint8_t kind = shoal_span_left(span) ? shoal_span_u8(span) : 'D';
	bool whole = kind == 'D' || kind == 'd';
	uint64_t len = whole ? shoal_span_left(span) : shoal_span_varint(span);
	const uint8_t *path = shoal_span_bytes(span, len);

	if (span->bad || !strchr("DdSNnHh", kind) || kind == '\0' || len > SHOAL_NAME_MAX - 1)
		return false;
	if (!whole && len > 0 && path[--len] != '/') /* there the path ends in a slash */
		return false;
	if (shoal_path_goes_up((const char *)path, len)) /* no listing makes such a one */
		return false;
	*ret_kind = kind;
	*ret_path = (struct shoal_span){ .p = path, .end = path + len };
	return true;
}
