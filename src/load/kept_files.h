/*
 * kept_files.h - files of several samples stay open for the next of them.
 *
 * Used by the thread that reads ahead only. Each of the loader's files counts one request more than
 * there are, so that no engine closes it: its descriptor stays until another file takes its place,
 * or until the epoch ends. So nothing of an epoch is read from a file that another one opened.
 */
#ifndef SHOAL_LOAD_KEPT_FILES_H
#define SHOAL_LOAD_KEPT_FILES_H

#include "load/loader_private.h"

/* Room for the files, if samples share some. Returns 0 or -ENOMEM. */
int load_kept_init(struct shoal_loader *l) MUST_USE;
void load_kept_free(struct shoal_loader *l);

/*
 * Let the request use the open file of an earlier one, or keep its own. Called when the request is
 * submitted, so that a file is not held for requests that never begin. Nothing happens if the
 * sample is its whole file, or if requests in flight use all that can be kept.
 */
void load_keep_file(struct shoal_loader *l, struct load_slot *s);

/* When nothing is in flight and the files were closed: forget them. */
void load_kept_forget(struct shoal_loader *l);

#endif
