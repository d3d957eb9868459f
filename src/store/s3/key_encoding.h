/* key_encoding.h - decode the keys of a list's page, if the server encodes them as it claims. */
#ifndef SHOAL_STORE_S3_KEY_ENCODING_H
#define SHOAL_STORE_S3_KEY_ENCODING_H

#include "store/s3/list.h"

/*
 * Decode the names of the lister's page, which was checked. May send two further requests, once per
 * store; their errors are returned.
 */
int s3_decode_page(struct s3_lister *l, struct shoal_err *err) MUST_USE;

#endif
