#include "store/s3_curl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

struct s3_curl s3_curl;

static const struct {
	const char *name;
	size_t off;
} functions[] = {
#define FUNCTION(f)                                     \
	{                                               \
		"curl_" #f, offsetof(struct s3_curl, f) \
	}
	FUNCTION(global_init),         FUNCTION(getdate),
	FUNCTION(easy_init),           FUNCTION(easy_cleanup),
	FUNCTION(easy_setopt),         FUNCTION(easy_getinfo),
	FUNCTION(easy_strerror),       FUNCTION(multi_init),
	FUNCTION(multi_cleanup),       FUNCTION(multi_setopt),
	FUNCTION(multi_assign),        FUNCTION(multi_add_handle),
	FUNCTION(multi_remove_handle), FUNCTION(multi_socket_action),
	FUNCTION(multi_info_read),     FUNCTION(multi_strerror),
#undef FUNCTION
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_rc;
static struct shoal_err load_err;

static void load(void)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	CURLcode code;

	if (!library) {
		load_rc = shoal_fail(&load_err, -ELIBACC, "buckets need libcurl: %s", dlerror());
		return;
	}
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function) {
			load_rc =
				shoal_fail(&load_err, -ELIBBAD,
					   "libcurl has no %s(): it is too old", functions[i].name);
			return;
		}
		memcpy((char *)&s3_curl + functions[i].off, &function, sizeof(function));
	}
	code = s3_curl.global_init(CURL_GLOBAL_DEFAULT);
	if (code != CURLE_OK)
		load_rc = shoal_fail(&load_err, -EIO, "cannot start libcurl: %s",
				     s3_curl.easy_strerror(code));
}

int s3_curl_load(struct shoal_err *err)
{
	pthread_once(&once, load);
	return load_rc < 0 ? shoal_fail(err, load_rc, "%s", load_err.msg) : 0;
}
