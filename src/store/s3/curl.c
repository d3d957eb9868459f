#include "store/s3/curl.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define OLDEST 0x075500 /* 7.85.0, as in meson.build */

struct s3_curl s3_curl;

static const struct {
	const char *name;
	size_t off;
} functions[] = {
#define FUNCTION(f)                                     \
	{                                               \
		"curl_" #f, offsetof(struct s3_curl, f) \
	}
	FUNCTION(version_info),     FUNCTION(global_init),         FUNCTION(getdate),
	FUNCTION(easy_init),        FUNCTION(easy_cleanup),        FUNCTION(easy_setopt),
	FUNCTION(easy_getinfo),     FUNCTION(easy_strerror),       FUNCTION(multi_init),
	FUNCTION(multi_cleanup),    FUNCTION(multi_setopt),        FUNCTION(multi_assign),
	FUNCTION(multi_add_handle), FUNCTION(multi_remove_handle), FUNCTION(multi_socket_action),
	FUNCTION(multi_info_read),  FUNCTION(multi_strerror),
#undef FUNCTION
};

_Static_assert(ARRAY_LEN(functions) * sizeof(void *) == sizeof(struct s3_curl),
	       "each function of the table is looked up");

static int s3_curl_resolve(void *library, struct shoal_err *err)
{
	struct s3_curl found;
	CURLcode code;

	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return err_set(err, -ELIBBAD, "libcurl is damaged: it has no %s()",
				       functions[i].name);
		memcpy((char *)&found + functions[i].off, &function, sizeof(function));
	}
	if (found.version_info(CURLVERSION_FIRST)->version_num < OLDEST)
		return err_set(err, -ELIBBAD, "buckets need libcurl 7.85.0 or later, not %s",
			       found.version_info(CURLVERSION_FIRST)->version);
	code = found.global_init(CURL_GLOBAL_DEFAULT);
	if (code != CURLE_OK)
		return err_set(err, -EIO, "cannot start libcurl: %s", found.easy_strerror(code));
	s3_curl = found;
	return 0;
}

static void *open_own_curl_below(const char *folder, const char *prefix)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s/share/shoal/libshoal_curl.so", folder, prefix);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* A wheel and a tarball have a libcurl below their prefix. NULL: there is none. */
static void *open_own_curl(void)
{
	char folder[PATH_MAX], *dir;
	void *library = NULL;
	Dl_info here;

	if (path_of_program(folder, sizeof(folder)))
		library = open_own_curl_below(folder, "..");
	/* In Python this code is a file of a package, in PREFIX/lib/pythonX/site-packages/shoal or,
	 * by pip's --target, in PREFIX/shoal. A program's name here is what it was called by: no
	 * path. */
	if (library || !dladdr(&s3_curl, &here) || here.dli_fname[0] != '/')
		return library;
	dir = path_dir(here.dli_fname);
	if (dir)
		library = open_own_curl_below(dir, "../../../..");
	if (dir && !library)
		library = open_own_curl_below(dir, "..");
	free(dir);
	return library;
}

/* The system's is preferred: it has the system's certificates and security updates. */
static int s3_curl_find(struct shoal_err *err)
{
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	int rc =
		library ? s3_curl_resolve(library, err)
			: err_set(err, -ELIBACC,
				  "buckets need libcurl: %s; install the package libcurl4 or libcurl",
				  dlerror());

	if (rc < 0 && (library = open_own_curl()))
		rc = s3_curl_resolve(library, err);
	return rc;
}

/* Retried after a failure: descriptors or memory may have been short only then. */
int s3_curl_load(struct shoal_err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!loaded)
		rc = s3_curl_find(err);
	loaded = rc == 0;
	pthread_mutex_unlock(&lock);
	return rc;
}
