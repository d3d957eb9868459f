/* list.h - request and check a page of a bucket's list: shared by listing and sharding. */
#ifndef SHOAL_STORE_S3_LIST_H
#define SHOAL_STORE_S3_LIST_H

#include "store/s3/page.h"
#include "store/s3/s3_private.h"

struct s3_lister {
	struct store_s3 *store;
	struct s3_client *client;
	const int *stop; /* may be NULL */
	bool begun;      /* a page was taken: continue after lo even if it is empty */
	struct s3_page page;
	char after[STORE_S3_KEY];
};

/* Request up to @max_keys names after @lo, or with @token if there is one, and check that they
 * are below the prefix, after @lo, and rising. */
int s3_list_page(struct s3_lister *l, const struct s3_name *lo, const char *token,
		 unsigned max_keys, struct shoal_err *err) MUST_USE;

/* A name on the page, without the store's prefix. Lent until the next page. */
const uint8_t *s3_list_name(const struct s3_lister *l, size_t i, size_t *ret_len);

#define S3_UNIT_MAX (2 * SHOAL_NAME_MAX + 16)

/* Write the unit that lists the names after @lo up to @hi (NULL: the end). Returns its length. */
size_t s3_list_unit(const struct s3_name *lo, const struct s3_name *hi, uint8_t *unit);

#endif
