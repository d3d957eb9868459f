#include "store/s3/xml.h"

#include <errno.h>
#include <string.h>

#include <expat.h>

#define DEPTH_MAX  100u
#define PATH_BYTES 256u /* bytes of the path of an element that is looked for */

struct finder {
	XML_Parser parser;
	struct s3_xml_field *fields, *taking; /* taking: the one whose text comes now */
	size_t nr, taken;
	unsigned depth;
	char path[PATH_BYTES];
	size_t path_len;         /* of it, as long as the elements above fit */
	size_t above[DEPTH_MAX]; /* path_len before each of them */
	bool refused;
};

static void refuse(struct finder *f)
{
	f->refused = true;
	XML_StopParser(f->parser, XML_FALSE);
}

static const char *without_namespace(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon ? colon + 1 : name;
}

/* Elements whose path is too long are not looked for: any byte marks that. */
static void extend_path(struct finder *f, const char *name)
{
	size_t len = strlen(name), need = len + (f->path_len > 0);

	if (need >= sizeof(f->path) - f->path_len) {
		if (f->path_len + 1 < sizeof(f->path))
			f->path[f->path_len++] = '\1';
		f->path[f->path_len] = '\0';
		return;
	}
	if (f->path_len > 0)
		f->path[f->path_len++] = '/';
	memcpy(f->path + f->path_len, name, len + 1);
	f->path_len += len;
}

static void XMLCALL xml_start(void *self, const char *name, const char **attributes)
{
	struct finder *f = self;

	(void)attributes;
	if (f->depth == DEPTH_MAX) {
		refuse(f);
		return;
	}
	f->above[f->depth++] = f->path_len;
	extend_path(f, without_namespace(name));
	f->taking = NULL;
	for (size_t i = 0; i < f->nr && !f->taking; i++)
		if (!f->fields[i].found && strcmp(f->fields[i].path, f->path) == 0)
			f->taking = &f->fields[i];
	f->taken = 0;
}

static void XMLCALL text(void *self, const char *data, int len)
{
	struct finder *f = self;
	size_t n = (size_t)len;

	if (!f->taking)
		return;
	for (size_t i = 0; i < n; i++) {
		if (f->taken == 0 && strchr(" \t\r\n", data[i]))
			continue;
		if (f->taken + 1 < f->taking->cap)
			f->taking->text[f->taken++] = data[i];
		else
			f->taking->cut |= !strchr(" \t\r\n", data[i]);
	}
}

static void XMLCALL xml_end(void *self, const char *name)
{
	struct finder *f = self;

	(void)name;
	if (f->taking) {
		while (f->taken > 0 && strchr(" \t\r\n", f->taking->text[f->taken - 1]))
			f->taken--;
		f->taking->text[f->taken] = '\0';
		f->taking->found = true;
		f->taking = NULL;
	}
	f->path_len = f->above[--f->depth];
	f->path[f->path_len] = '\0';
}

static void XMLCALL doctype(void *self, const char *name, const char *system_id,
			    const char *public_id, int has_subset)
{
	(void)name;
	(void)system_id;
	(void)public_id;
	(void)has_subset;
	refuse(self);
}

int s3_xml_find(const void *data, size_t len, struct s3_xml_field *fields, size_t nr)
{
	struct finder f = { .parser = XML_ParserCreate(NULL), .fields = fields, .nr = nr };
	int rc = 0;

	for (size_t i = 0; i < nr; i++) {
		fields[i].found = fields[i].cut = false;
		fields[i].text[0] = '\0';
	}
	if (!f.parser)
		return -ENOMEM;
	XML_SetUserData(f.parser, &f);
	XML_SetElementHandler(f.parser, xml_start, xml_end);
	XML_SetCharacterDataHandler(f.parser, text);
	XML_SetStartDoctypeDeclHandler(f.parser, doctype);
	if (len > INT32_MAX ||
	    XML_Parse(f.parser, data ? data : "", (int)len, 1) != XML_STATUS_OK || f.refused)
		rc = -EBADMSG;
	XML_ParserFree(f.parser);
	if (rc < 0)
		for (size_t i = 0; i < nr; i++) /* an element that was truncated */
			if (!fields[i].found)
				fields[i].text[0] = '\0';
	return rc;
}
