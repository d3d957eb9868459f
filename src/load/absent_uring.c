/* In place of uring.c, in a build without liburing: threads read files instead. */
#include "load/engine_private.h"

int load_uring_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err)
{
	(void)options;
	(void)base;
	(void)ret_engine;
	return err_set(err, -ENOTSUP,
		       "this build of shoal has no io_uring (liburing was missing when it was "
		       "built)");
}
