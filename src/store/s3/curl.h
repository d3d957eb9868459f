/*
 * curl.h - libcurl, loaded when the first request is made.
 *
 * It brings some thirty other libraries: 4 MB in each process, and half of a command's startup
 * time. Most runs read files. So nothing is linked to it, and its functions are called by their
 * usual names through a table.
 */
#ifndef SHOAL_STORE_S3_CURL_H
#define SHOAL_STORE_S3_CURL_H

#define CURL_DISABLE_TYPECHECK /* its macros would call functions, not pointers */
#include <curl/curl.h>

#include "base/base.h"
#include "base/err.h"

struct s3_curl {
	curl_version_info_data *(*version_info)(CURLversion age);
	CURLcode (*global_init)(long flags);
	time_t (*getdate)(const char *text, const time_t *unused);
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *easy);
	CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
	CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
	const char *(*easy_strerror)(CURLcode code);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_cleanup)(CURLM *multi);
	CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
	CURLMcode (*multi_assign)(CURLM *multi, curl_socket_t fd, void *self);
	CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_socket_action)(CURLM *multi, curl_socket_t fd, int events, int *running);
	CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
	const char *(*multi_strerror)(CURLMcode code);
};

extern struct s3_curl s3_curl;

/* Call it before any of them. From any thread, any number of times. */
int s3_curl_load(struct shoal_err *err) MUST_USE;

#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt
#define curl_getdate             s3_curl.getdate
#define curl_easy_init           s3_curl.easy_init
#define curl_easy_cleanup        s3_curl.easy_cleanup
#define curl_easy_setopt         s3_curl.easy_setopt
#define curl_easy_getinfo        s3_curl.easy_getinfo
#define curl_easy_strerror       s3_curl.easy_strerror
#define curl_multi_init          s3_curl.multi_init
#define curl_multi_cleanup       s3_curl.multi_cleanup
#define curl_multi_setopt        s3_curl.multi_setopt
#define curl_multi_assign        s3_curl.multi_assign
#define curl_multi_add_handle    s3_curl.multi_add_handle
#define curl_multi_remove_handle s3_curl.multi_remove_handle
#define curl_multi_socket_action s3_curl.multi_socket_action
#define curl_multi_info_read     s3_curl.multi_info_read
#define curl_multi_strerror      s3_curl.multi_strerror

#endif
