#include "store/kind.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* All kinds of stores. A backend is a folder that defines store_NAME_kind, and a line here. */
#define KINDS(K) \
	K(posix) \
	K(s3)    \
	K(null)

#define DECLARE(name) extern const struct store_kind store_##name##_kind;
KINDS(DECLARE)

#define POINT_TO(name) &store_##name##_kind,
static const struct store_kind *const built_in[] = { KINDS(POINT_TO) };

static const struct store_kind *registered[STORE_REGISTERED_MAX];
static atomic_size_t nr_registered; /* atomic; the entries before it are set */

const struct store_kind *store_kind_at(size_t i)
{
	if (i < ARRAY_LEN(built_in))
		return built_in[i];
	i -= ARRAY_LEN(built_in);
	return i < atomic_load(&nr_registered) ? registered[i] : NULL;
}

int store_register(const struct store_kind *kind)
{
	size_t nr = atomic_load(&nr_registered), len = strlen(kind->prefix);
	const struct store_kind *other;

	for (size_t i = 0; (other = store_kind_at(i)) != NULL; i++)
		if (strncmp(other->prefix, kind->prefix, u64_min(len, strlen(other->prefix))) == 0)
			return -EEXIST;
	if (nr == STORE_REGISTERED_MAX)
		return -ENOSPC;
	registered[nr] = kind;
	atomic_store(&nr_registered, nr + 1);
	return 0;
}
