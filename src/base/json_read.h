/*
 * json_read.h - read a JSON document, value by value, in constant memory.
 *
 * The document is checked as RFC 8259 has it, and every scalar is passed on with its path: members
 * and indices joined by dots, such as "phases.0.latency_us.p50". NaN and Infinity, which some
 * writers emit, are errors. Nothing is allocated.
 */
#ifndef SHOAL_BASE_JSON_READ_H
#define SHOAL_BASE_JSON_READ_H

#include "base/err.h"

#define JSON_DEPTH_MAX 32u
#define JSON_PATH_MAX  512u  /* longer paths are cut off */
#define JSON_TEXT_MAX  4096u /* longer strings are cut off */

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING };

/* A scalar, lent. */
struct json_value {
	const char *path;
	enum json_kind kind;
	const char *text; /* as written; of a string its content, escapes resolved */
	double number;    /* of a number; otherwise NAN */
};

/*
 * Call @each for all scalars of @text, until it returns a value other than 0, which is returned.
 * -EBADMSG, with the line and what is wrong there: it is not JSON.
 */
typedef int json_each_fn(void *self, const struct json_value *v);
int json_read(const char *text, size_t len, json_each_fn *each, void *self,
	      struct shoal_err *err) MUST_USE;

#endif
