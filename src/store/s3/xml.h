/* xml.h - read a few elements of a server's XML answer. */
#ifndef SHOAL_STORE_S3_XML_H
#define SHOAL_STORE_S3_XML_H

#include "base/base.h"

/* An element to look for: its text, trimmed, goes to @text, truncated at @cap. */
struct s3_xml_field {
	const char *path; /* from the root on, as "Error/Code"; namespaces do not count */
	char *text;
	size_t cap;
	bool found;
	bool cut; /* it was truncated */
};

/* Find each field's first element in a complete document. -EBADMSG if it is not XML, or contains
 * anything that an S3 answer never has: a document type, which could define entities, or a hundred
 * levels. */
int s3_xml_find(const void *data, size_t len, struct s3_xml_field *fields, size_t nr) MUST_USE;

#endif
