/* In place of s3.c, in a build without S3: never called, because no bucket can be opened. */
#include "load/engine_private.h"

int load_s3_new(const struct load_engine *base, struct load_engine **ret_engine,
		struct shoal_err *err)
{
	(void)base;
	(void)ret_engine;
	return err_set(err, -ENOTSUP, "this build of shoal has no S3 support");
}
