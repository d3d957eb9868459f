/* s3_list.h - a page of a bucket's list, asked for and checked: what listing and sharding share. */
#ifndef SHOAL_STORE_S3_LIST_H
#define SHOAL_STORE_S3_LIST_H

#include "store/s3.h"
#include "store/s3_page.h"

struct s3_lister {
	struct store_s3 *store;
	struct s3_client *client;
	const int *stop; /* may be NULL */
	bool begun;      /* a page was taken: also an empty lo is one to go on behind */
	struct s3_page page;
	char after[STORE_S3_KEY];
};

/*
 * Ask for up to @max_keys names behind @lo, or where there is one behind @token, and see that they
 * are what was asked for: below the prefix, behind @lo, and rising.
 */
int s3_list_page(struct s3_lister *l, const struct s3_name *lo, const char *token,
		 unsigned max_keys, struct shoal_err *err) SHOAL_MUST_USE;

/* A name on the page, without the store's prefix. Lent until the next page. */
const uint8_t *s3_list_name(const struct s3_lister *l, size_t i, size_t *ret_len);

#define S3_UNIT_MAX (2 * SHOAL_NAME_MAX + 16)

/* The unit that lists what is behind @lo up to @hi (NULL: the end): its length. */
size_t s3_list_unit(const struct s3_name *lo, const struct s3_name *hi, uint8_t *unit);

#endif
