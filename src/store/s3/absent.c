/* In place of the other files of this folder, in a build without libcurl, libcrypto or expat.
 * Catalogs of buckets can be read; the buckets cannot. */
#include "store/s3/s3.h"

struct store_s3 *store_s3_of(struct store *s)
{
	(void)s;
	return NULL;
}

static int absent_open(const struct store_uri *uri, const struct shoal_store_config *config,
		       struct store **ret_store, struct shoal_err *err)
{
	(void)uri;
	(void)config;
	(void)ret_store;
	return err_set(err, -ENOTSUP,
		       "this build of shoal has no S3 support (libcurl, "
		       "libcrypto or expat was missing when it was built)");
}

const struct store_kind store_s3_kind = {
	.prefix = "s3://",
	.traits = { .objects = true, .etags = true, .any_name = true },
	.open = absent_open,
};
