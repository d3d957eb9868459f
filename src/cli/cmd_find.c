/* shoal find: name to id. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/s3_options.h"
#include "shoal.h"

struct cmd_find_arguments {
	struct cli_where where;
	bool json;
};

static int find_one(const char *path, const struct shoal_catalog *cat, const char *name, bool json)
{
	uint64_t id;
	int rc = shoal_catalog_find(cat, name, strlen(name), &id);

	if (rc == 0) {
		printf("%" PRIu64, id);
		return CLI_OK;
	}
	if (json)
		printf("null");
	if (rc == -ENOENT)
		return cli_fail("find", "'%s': there is no name '%s'", path, name);
	return cli_lookup_failed("find", path, cat, rc);
}

static int cmd_find_run(void *arguments, int nr, char **words)
{
	const struct cmd_find_arguments *a = arguments;
	struct shoal_catalog *cat = cli_open("find", words[0], &a->where);
	int status = CLI_OK;

	if (!cat)
		return CLI_FAILED;
	for (int i = 1; i < nr; i++) {
		int one;

		if (a->json)
			fputs(i == 1 ? "[" : ", ", stdout);
		one = find_one(words[0], cat, words[i], a->json);
		if (one == CLI_OK && !a->json)
			putchar('\n');
		if (one != CLI_OK)
			status = CLI_FAILED;
	}
	if (a->json)
		puts("]");
	shoal_catalog_close(cat);
	return status;
}

#define AT(field) offsetof(struct cmd_find_arguments, field)

static const struct cli_option options[] = {
	CLI_FLAG(0, "json", AT(json),
		 "print a list of ids, null for a name that is not in the catalog"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_find = {
	.name = "find",
	.summary = "print the id of a name",
	.usage = "CATALOG NAME... [OPTION]...",
	.about = "Print the id of each name, one per line. A name that is not in the catalog is "
		 "reported on standard error, and the exit status is 1.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 2,
	.give = "give a catalog and at least one name",
	.size = sizeof(struct cmd_find_arguments),
	.run = cmd_find_run,
};
