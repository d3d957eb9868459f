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
	uint64_t nr_old; /* names of the catalog that is there now; 0 until output_protect() */
};

/* -EINVAL or -ENOTSUP with a message if neither a file nor an object can have this path or URI. */
int output_check(const char *text, struct shoal_err *err) MUST_USE;

/* The path of @text, which is lent: a path itself, or in a file URI. -ENOTSUP with a message for
 * what can only be an object, or nothing. */
int output_file(const char *text, const char **ret_path, struct shoal_err *err) MUST_USE;

/* The output at @text, which is lent. Nothing is created: an object still needs output_stage(). */
int output_open(struct output *o, const char *text, struct shoal_err *err) MUST_USE;

/*
 * Before any work: look at what is there now. -EEXIST, with a hint, for a file or an object that is
 * not a catalog: it is not to be replaced; -EISDIR for a directory. An empty or damaged one may be.
 */
int output_protect(struct output *o, const struct shoal_store_config *config, const int *stop,
		   struct shoal_err *err) MUST_USE;

/* After the work: -EEXIST, with a hint, if @nr names are less than half of those that are there
 * now. A failed or misspelt command must not destroy a good catalog. */
int output_permit(const struct output *o, uint64_t nr, struct shoal_err *err) MUST_USE;

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

/* The names of the catalog in this file or object, by its header alone; 0 if that cannot be read.
 */
uint64_t open_nr_names(const char *uri, const struct shoal_store_config *config, const int *stop);

#endif
