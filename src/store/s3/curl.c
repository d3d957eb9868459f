#include "store/s3/curl.h"

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

_Static_assert(ARRAY_LEN(functions) * sizeof(void *) == sizeof(struct s3_curl),
	       "each function of the table is looked up");

static int s3_curl_resolve(struct shoal_err *err)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	CURLcode code;

	if (!library)
		return err_set(err, -ELIBACC,
			       "buckets need libcurl: %s; install the package libcurl4 or libcurl",
			       dlerror());
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return err_set(err, -ELIBBAD, "libcurl is damaged: it has no %s()",
				       functions[i].name);
		memcpy((char *)&s3_curl + functions[i].off, &function, sizeof(function));
	}
	code = s3_curl.global_init(CURL_GLOBAL_DEFAULT);
	if (code != CURLE_OK)
		return err_set(err, -EIO, "cannot start libcurl: %s", s3_curl.easy_strerror(code));
	return 0;
}

/* Retried after a failure: descriptors or memory may have been short only then. */
int s3_curl_load(struct shoal_err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!loaded)
		rc = s3_curl_resolve(err);
	loaded = rc == 0;
	pthread_mutex_unlock(&lock);
	return rc;
}
