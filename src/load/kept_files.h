/*
 * kept_files.h - files of several samples stay open for the next of them.
 *
 * Used only by the thread that reads ahead. Each of the loader's files counts one request more than
 * it has, so that no engine closes it: its descriptor stays open until another file takes its
 * place, or until the epoch ends. So no epoch reads from a file that another epoch opened.
 */
#ifndef SHOAL_LOAD_KEPT_FILES_H
#define SHOAL_LOAD_KEPT_FILES_H

#include "load/loader_private.h"

/* Allocate room for the files, if samples share some. Returns 0 or -ENOMEM. */
int load_kept_init(struct shoal_loader *l) MUST_USE;
void load_kept_free(struct shoal_loader *l);

/*
 * Let the request use the open file of an earlier one, or keep its own open. Called when the
 * request is submitted, so that a file is not held for requests that never begin. Nothing happens
 * if the sample is its whole file, or if requests in flight use all files that can be kept.
 */
void load_keep_file(struct shoal_loader *l, struct load_slot *s);

/* When nothing is in flight and the files were closed: forget them. */
void load_kept_forget(struct shoal_loader *l);

#endif
