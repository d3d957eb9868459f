/* shoal find: name to id. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"
#include "shoal.h"

struct cmd_find_arguments {
	struct cli_where where;
	struct cli_select select;
	bool json;
};

/* Id and name of all files that the options select. */
static int find_selected(const char *path, const struct shoal_catalog *cat,
			 struct cmd_find_arguments *a)
{
	struct cli_format format = { .ids = true, .json = a->json };
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int status;

	if (shoal_list_catalog(cat, cli_select_finish(&a->select), &list, &err) < 0)
		return cli_fail("find", "'%s': %s", path, cli_words("find", &err));
	status = cli_put_list("find", path, list, &format, true);
	shoal_list_close(list);
	return status;
}

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
		return cli_no_such_name("find", path, cat, name);
	return cli_lookup_failed("find", path, cat, rc);
}

static int cmd_find_run(void *arguments, int nr, char **words)
{
	struct cmd_find_arguments *a = arguments;
	struct shoal_catalog *cat;
	int status = CLI_OK;

	if (a->select.given && nr > 1)
		return cli_usage("find",
				 "--%s is for files that are looked for, not for names: "
				 "give one or the other",
				 a->select.given);
	if (!a->select.given && nr == 1)
		return cli_usage("find", "give a catalog and names, or a catalog and what to look "
					 "for, such as --regex REGEX");
	cat = cli_open("find", words[0], &a->where);
	if (!cat)
		return CLI_FAILED;
	if (a->select.given) {
		status = find_selected(words[0], cat, a);
		shoal_catalog_close(cat);
		return status;
	}
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
		 "print a list of ids, null for a name that is not in the catalog; of files that "
		 "match a JSON object per line"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_find = {
	.name = "find",
	.summary = "print the id of a name, or of names that match",
	.usage = "CATALOG NAME... [OPTION]...\n"
		 "CATALOG [--include GLOB] [--regex REGEX] [OPTION]...",
	.about =
		"Print the id of each name, one per line. A name that is not in the catalog is "
		"reported on standard error, and the exit status is 1. Without names, print the id "
		"and, after a tab, the name of every file that matches.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.give = "give a catalog and at least one name",
	.size = sizeof(struct cmd_find_arguments),
	.run = cmd_find_run,
};
