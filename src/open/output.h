/*
 * output.h - where a catalog is written: a file, or an object, which is made in a temporary file
 * first and sent when it is complete.
 */
#ifndef SHOAL_OPEN_OUTPUT_H
#define SHOAL_OPEN_OUTPUT_H

#include "open/transfer.h"

struct output {
	const char *path;   /* of the file to write; lent, or in temporary */
	const char *object; /* that this file becomes; lent. NULL: it stays a file */
	char dir[2048];     /* holds the temporary file; "" until output_stage() */
	char temporary[2064];
};

/* -EINVAL or -ENOTSUP with a message if neither a file nor an object can have this path or URI. */
int output_check(const char *text, struct shoal_err *err) MUST_USE;

/* The path of @text, which is lent: a path itself, or in a file URI. -ENOTSUP with a message for
 * what can only be an object, or nothing. */
int output_file(const char *text, const char **ret_path, struct shoal_err *err) MUST_USE;

/* The output at @text, which is lent. Nothing is created: an object still needs output_stage(). */
int output_open(struct output *o, const char *text, struct shoal_err *err) MUST_USE;

/* Make the directory of the temporary file, in @tmp_dir (NULL: the default one). Does nothing if
 * the output is a file. Must be released. */
int output_stage(struct output *o, const char *tmp_dir, struct shoal_err *err) MUST_USE;

/* After output_open(): use the directory that another rank's output_stage() has made. */
void output_share(struct output *o, const char *dir);

/* Send the complete file, if it becomes an object. @watch may be NULL. */
int output_send(const struct output *o, const struct shoal_store_config *config,
		const struct transfer_watch *watch, struct shoal_err *err) MUST_USE;

/* Remove the temporary file: on one rank, when no other uses it. */
void output_release(const struct output *o);

/* The names of the catalog in the file @path; 0 if it is not a file, or cannot be opened. */
uint64_t open_nr_names(const char *path);

#endif
