#include "store/posix/hidden.h"

#include <string.h>
#include <sys/sysmacros.h>

uint32_t posix_hidden_in(const struct store_list_options *o, const struct stat *dir)
{
	uint32_t hides = 0;

	for (unsigned i = 0; i < o->nr_hidden; i++)
		if (o->hidden[i].ino == dir->st_ino && o->hidden[i].dev == dir->st_dev)
			hides |= UINT32_C(1) << i;
	return hides;
}

static bool starts_with_one_of(const char *name, const char *const *prefix)
{
	for (size_t i = 0; i < STORE_PREFIXES && prefix[i]; i++)
		if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

bool posix_hidden_name(const struct store_list_options *o, uint32_t hides, const char *base)
{
	for (unsigned i = 0; i < o->nr_hidden; i++) {
		const struct store_hidden *h = &o->hidden[i];

		if ((hides >> i & 1) && ((h->name && strcmp(base, h->name) == 0) ||
					 starts_with_one_of(base, h->prefix)))
			return true;
	}
	return false;
}

bool posix_hidden_file(const struct store_list_options *o, const struct statx *st)
{
	for (unsigned i = 0; i < o->nr_hidden; i++) {
		const struct store_hidden *h = &o->hidden[i];

		if (h->file_ino && h->file_ino == st->stx_ino &&
		    h->file_dev == makedev(st->stx_dev_major, st->stx_dev_minor))
			return true;
	}
	return false;
}
