/*
 * list_keys.h - sorted sets of keys of any size that are computed, not stored.
 *
 * Key and rank are found from each other, so that 10^9 keys take as much memory as ten. For
 * list_server, and for the tests that cut such sets without a server.
 */
#ifndef SHOAL_BENCH_LIST_KEYS_H
#define SHOAL_BENCH_LIST_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIST_KEY_MAX      1024
#define LIST_PREFIXES_MAX 1000000

enum list_shape {
	LIST_HEX,        /* train/ and 16 hex digits, evenly spread */
	LIST_UUID,       /* as even */
	LIST_SEQUENTIAL, /* train/img_0000000000.jpg and so on */
	LIST_ZIPF,       /* directories of most unequal sizes, evenly filled */
	LIST_DATES,      /* a directory for each hour of some years, with a few objects each */
	LIST_NUMBERS,    /* numbers without leading zeros: their order is that of text */
	LIST_NR_SHAPES,
};

struct list_keys {
	enum list_shape shape;
	uint64_t nr;
	unsigned nr_prefixes; /* of LIST_ZIPF */
	uint64_t *first;      /* rank of the first key of each of them, and the end */
};

/* The shape of a name such as "zipf"; LIST_NR_SHAPES: there is none. */
enum list_shape list_shape_of(const char *name);

/* -1 without memory, or with more keys than can be told apart. */
int list_keys_init(struct list_keys *k, enum list_shape shape, uint64_t nr, unsigned nr_prefixes);
void list_keys_release(struct list_keys *k);

/* Write the key of a rank to @p, and return its end. Keys rise with their ranks. */
char *list_keys_put(const struct list_keys *k, uint64_t rank, char *p);

/* The rank of the first key behind @key; or, with @or_equal, of that or behind it. */
uint64_t list_keys_after(const struct list_keys *k, const char *key, size_t len, bool or_equal);

/* A number that has nothing to do with @x, but is always the same. */
uint64_t list_mix(uint64_t x);

char *list_put_number(char *p, uint64_t v);

#endif
