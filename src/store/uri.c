#include "store/uri.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/kind.h"

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool in_scheme(unsigned char c)
{
	return isalnum(c) || c == '+' || c == '-' || c == '.';
}

size_t store_uri_scheme_len(const char *text, size_t len)
{
	size_t i = 0;

	if (len == 0 || !isalpha((unsigned char)text[0]))
		return 0;
	while (i < len && in_scheme((unsigned char)text[i]))
		i++;
	return len - i >= 3 && memcmp(text + i, "://", 3) == 0 ? i + 3 : 0;
}

static const struct store_kind *uri_kind_of(const char *text)
{
	const struct store_kind *kind;

	for (size_t i = 0; (kind = store_kind_at(i)) != NULL; i++)
		if (starts_with(text, kind->prefix))
			return kind;
	return store_uri_scheme_len(text, strlen(text)) ? NULL : store_kind_at(0);
}

static bool has_authority(const struct store_kind *kind)
{
	size_t len = strlen(kind->prefix);

	return len > 2 && memcmp(kind->prefix + len - 2, "//", 2) == 0;
}

struct store_uri store_uri_parse(const char *text)
{
	struct store_uri u = {
		.text = text, .kind = uri_kind_of(text), .authority = "", .path = text
	};

	if (!u.kind || !starts_with(text, u.kind->prefix))
		return u;
	u.path += strlen(u.kind->prefix);
	if (u.kind->traits.files && starts_with(u.path, "///")) {
		u.path += 2;
	} else if (has_authority(u.kind)) {
		u.authority = u.path;
		u.authority_len = strcspn(u.path, "/");
		u.path += u.authority_len;
		u.path += *u.path == '/';
	}
	return u;
}

static const char *form_of(const struct store_kind *kind)
{
	return kind->form ? kind->form : kind->prefix;
}

/* "... use file://, s3://, null: or a path" */
static int no_such_kind(const char *text, struct shoal_err *err)
{
	size_t len = store_uri_scheme_len(text, strlen(text));
	const struct store_kind *kind;
	char forms[200] = "";

	for (size_t i = 0; (kind = store_kind_at(i)) != NULL; i++)
		snprintf(forms + strlen(forms), sizeof(forms) - strlen(forms), "%s%.20s",
			 i ? ", " : "", form_of(kind));
	return err_set(err, -ENOTSUP, "'%.*s' is not a kind of store: use %s or a path",
		       (int)u64_min(len, 200), text, forms);
}

int store_uri_check_root(const char *text, struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(text);

	return u.kind && u.kind->check ? u.kind->check(&u, err) : 0;
}

int store_uri_check(const char *text, struct shoal_err *err)
{
	if (!*text)
		return err_set(err, -EINVAL, "the store is empty: give a URI or a path");
	if (!store_uri_parse(text).kind)
		return no_such_kind(text, err);
	return store_uri_check_root(text, err);
}

struct store_traits store_uri_traits(const char *text)
{
	struct store_uri u = store_uri_parse(text);

	return u.kind ? u.kind->traits : (struct store_traits){ .files = false };
}

bool store_uri_is_file(const char *text, size_t len)
{
	size_t n = strlen(STORE_FILE_URI);

	return len >= n && memcmp(text, STORE_FILE_URI, n) == 0;
}

const char *store_uri_below(const char *uri, const char *root)
{
	size_t len = strlen(root);

	return strncmp(uri, root, len) == 0 && uri[len] == '/' ? uri + len + 1 : NULL;
}

const char *store_local_path(const char *text)
{
	struct store_uri u = store_uri_parse(text);

	return u.kind && u.kind->traits.files && store_uri_check(text, NULL) == 0 ? u.path : NULL;
}

size_t store_bucket_uri(const char *name, size_t len, char *to)
{
	size_t i = 0, at;

	while (!store_kind_at(i)->traits.objects) /* there is one: s3 */
		i++;
	at = strlen(store_kind_at(i)->prefix);
	memcpy(to, store_kind_at(i)->prefix, at);
	memcpy(to + at, name, len);
	to[at + len] = '/';
	return at + len + 1;
}
