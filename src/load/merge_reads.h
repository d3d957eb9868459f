/*
 * merge_reads.h - one read for neighbouring samples of a batch of the ring, which has several steps
 * if these are small and follow one another in the files.
 */
#ifndef SHOAL_LOAD_MERGE_READS_H
#define SHOAL_LOAD_MERGE_READS_H

#include "load/loader_private.h"

/* A merged read takes no more than so many times the memory of its samples; without gaps if there
 * is a limit. */
#define LOAD_MERGED_MEMORY 2u

/* How many steps to read together, whose samples have @mean bytes: 1 unless that makes for fewer
 * and longer reads. */
uint32_t load_merge_steps(const struct shoal_loader *l, uint64_t mean);

/* Bytes of buffer that a batch of @nr samples takes if most of them are neighbours. */
uint64_t load_merged_bytes(uint64_t nr, uint64_t mean);

/* Allocate room to sort a batch of @nr samples. Returns 0 or -ENOMEM. */
int load_merge_init(struct shoal_loader *l, uint64_t nr) MUST_USE;

/*
 * Merge the reads of a batch that was filled with samples, if they are close together in one file:
 * the first of them in the file reads for all, and the others follow it. Sets what the batch needs.
 * Samples that overlap, such as one that comes twice, keep reads and memory of their own: the
 * receiver of a sample may change its bytes.
 */
void load_merge(struct shoal_loader *l, struct load_batch *b);

/* A read has ended: give each sample of it its own result. The first is @s. */
void load_unmerge(struct load_slot *s);

#endif
