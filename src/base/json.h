/*
 * json.h - write JSON, one value after the other, to any sink. Nothing is allocated, so a document
 * may be of any length, and nothing can fail but the sink, which keeps its own error.
 *
 * @key is the member's name inside an object, and NULL inside an array and for the whole document.
 */
#ifndef SHOAL_BASE_JSON_H
#define SHOAL_BASE_JSON_H

#include "base/base.h"

typedef void json_put_fn(void *self, const void *bytes, size_t len);

/* Sinks: @self is a struct out, a struct buf or a FILE. */
json_put_fn json_put_out, json_put_buf, json_put_file;

struct json {
	json_put_fn *put;
	void *self;
	unsigned indent; /* spaces per level */
	unsigned lines;  /* values at this level and above stand on lines of their own */
	unsigned level;
	bool begun; /* the innermost container has a value already */
};

void json_open_object(struct json *j, const char *key);
void json_open_array(struct json *j, const char *key);
void json_close_object(struct json *j);
void json_close_array(struct json *j);

/* Bytes that are not UTF-8 become U+FFFD. NULL becomes null. */
void json_string(struct json *j, const char *key, const char *text);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* With up to @digits significant digits (17 keep every bit). JSON has no NaN: it becomes null. */
void json_real(struct json *j, const char *key, double value, int digits);

/* Nanoseconds as seconds, exactly: 12.000000345. */
void json_seconds(struct json *j, const char *key, uint64_t ns);

/* A string made like printf's. At most 255 bytes. */
void json_format(struct json *j, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
