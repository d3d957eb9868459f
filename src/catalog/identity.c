#include "catalog/identity.h"

#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

bool cat_sum_matches(const void *buf, size_t len, uint64_t want)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	(void)buf, (void)len, (void)want;
	return true;
#else
	return XXH3_64bits(buf, len) == want;
#endif
}

int cat_check_identity(const struct cat_file_kind *kind, const void *head, size_t len,
		       struct shoal_err *err)
{
	const size_t sum_off = CAT_HEADER_BYTES - sizeof(struct le64);
	const struct cat_identity *h = head;
	uint32_t version, unknown;

	if (len == 0)
		return err_set(err, -EBADMSG, "empty file, not a %s", kind->what);
	if (memcmp(h, kind->magic, u64_min(len, sizeof(h->magic))) != 0)
		return err_set(err, -EBADMSG, "not a %s", kind->what);
	if (len < CAT_HEADER_BYTES)
		return err_set(err, -EBADMSG, "truncated %s: only %zu bytes", kind->what, len);
	if (!cat_sum_matches(h, sum_off, le64_load((const uint8_t *)head + sum_off)))
		return err_set(err, -EBADMSG, "damaged %s: header checksum does not match",
			       kind->what);
	version = le32_get(h->version);
	unknown = le32_get(h->incompat) & ~kind->known;
	if (version == 0)
		return err_set(err, -EBADMSG, "damaged %s: there is no format version 0",
			       kind->what);
	if (version != kind->version || unknown)
		return err_set(err, -EPROTONOSUPPORT,
			       "made by a newer Shoal (%s version %" PRIu32
			       ", feature bits 0x%" PRIx32 "): this one reads version %u",
			       kind->format, version, unknown, kind->version);
	return 0;
}

int cat_check_whole(const struct cat_file_kind *kind, const void *head, size_t len,
		    struct shoal_err *err)
{
	const struct cat_identity *h = head;
	int rc = cat_check_identity(kind, head, len, err);
	uint64_t file_len;

	if (rc < 0)
		return rc;
	file_len = le64_get(h->file_len);
	if (file_len > len)
		return err_set(err, -EBADMSG, "truncated %s: %zu of %" PRIu64 " bytes", kind->what,
			       len, file_len);
	if (file_len < len)
		return err_set(err, -EBADMSG,
			       "damaged %s: the file has %zu bytes, but its header says %" PRIu64,
			       kind->what, len, file_len);
	return 0;
}
