/* s3_xml.h - the few words in the XML that a server answers with. */
#ifndef SHOAL_STORE_S3_XML_H
#define SHOAL_STORE_S3_XML_H

#include "base/base.h"

/* An element to look for: its text, without spaces around it, goes to @text, cut at @cap. */
struct s3_xml_field {
	const char *path; /* from the root on, as "Error/Code"; namespaces do not count */
	char *text;
	size_t cap;
	bool found;
	bool cut; /* there was more of it */
};

/*
 * Find each field's first element in a whole document. -EBADMSG when it is not XML, or has what an
 * answer of S3 never has: a document type, with which entities come, or a hundred levels.
 */
int s3_xml_find(const void *data, size_t len, struct s3_xml_field *fields,
		size_t nr) SHOAL_MUST_USE;

#endif
