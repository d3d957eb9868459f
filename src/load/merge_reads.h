/* merge_reads.h - one read for neighbouring samples of a batch. */
#ifndef SHOAL_LOAD_MERGE_READS_H
#define SHOAL_LOAD_MERGE_READS_H

#include "load/loader_private.h"

/* Room to sort a batch of so many samples. Returns 0 or -ENOMEM. */
int load_merge_init(struct shoal_loader *l, uint64_t batch) MUST_USE;

/*
 * Merge the reads of a batch that was filled with @nr samples, where they are near each other in
 * one file: the first of them in the file reads for all, and the others follow it. Sets what the
 * batch needs. Samples that overlap, as one that comes twice, keep reads and memory of their own:
 * whoever gets a sample may change its bytes.
 */
void load_merge(struct shoal_loader *l, struct load_batch *b, uint32_t nr);

/* A read has ended: give each sample of it its own result. The first is @s. */
void load_unmerge(struct load_slot *s);

#endif
