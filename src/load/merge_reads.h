/* merge_reads.h - one read for neighbouring samples of a batch. */
#ifndef SHOAL_LOAD_MERGE_READS_H
#define SHOAL_LOAD_MERGE_READS_H

#include "load/loader_private.h"

/* Allocate room to sort a batch of @nr samples. Returns 0 or -ENOMEM. */
int load_merge_init(struct shoal_loader *l, uint64_t batch) MUST_USE;

/*
 * Merge the reads of a batch that was filled with @nr samples, if they are close together in one
 * file: the first of them in the file reads for all, and the others follow it. Sets what the batch
 * needs. Samples that overlap, such as one that comes twice, keep reads and memory of their own:
 * the receiver of a sample may change its bytes.
 */
void load_merge(struct shoal_loader *l, struct load_batch *b, uint32_t nr);

/* A read has ended: give each sample of it its own result. The first is @s. */
void load_unmerge(struct load_slot *s);

#endif
