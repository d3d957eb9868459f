/* shoal cat: the bytes of samples. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "shoal.h"

#define CAT_BYTES (1u << 20)

struct cmd_cat_arguments {
	struct cli_where where;
	const char *data;
	bool names, if_match;
};

/*
 * The samples that @word stands for: a range; of one sample, unless a file with several is named.
 */
static int find_samples(const struct cmd_cat_arguments *a, const char *path,
			const struct shoal_catalog *cat, const char *word, uint64_t *ret_first,
			uint64_t *ret_nr)
{
	struct shoal_catalog_info info;
	uint64_t id;
	int rc;

	shoal_catalog_info(cat, &info);
	*ret_nr = 1;
	if (!a->names && parse_u64(word, ret_first) == 0) {
		if (*ret_first < info.nr_samples)
			return CLI_OK;
		return cli_fail("cat", "'%s': there is no sample %s: it has %" PRIu64, path, word,
				info.nr_samples);
	}
	rc = shoal_catalog_find(cat, word, strlen(word), &id);
	if (rc == -ENOENT)
		return cli_no_such_name("cat", path, cat, word);
	if (rc == 0)
		rc = shoal_catalog_samples(cat, id, ret_first, ret_nr);
	return rc < 0 ? cli_lookup_failed("cat", path, cat, rc) : CLI_OK;
}

static int put_sample(struct shoal_reader *reader, const char *path, uint64_t sample, char *buf)
{
	struct shoal_err err = { "" };
	uint64_t off = 0;
	int64_t got;

	while ((got = shoal_reader_part(reader, sample, off, buf, CAT_BYTES, &err)) > 0) {
		if (fwrite_unlocked(buf, 1, (size_t)got, stdout) < (size_t)got)
			return CLI_FAILED; /* cli_finish() reports it */
		off += (uint64_t)got;
	}
	if (got < 0)
		return cli_fail("cat", "'%s': %s", path, cli_words("cat", &err));
	return CLI_OK;
}

static int put_samples(const struct cmd_cat_arguments *a, const struct shoal_catalog *cat,
		       struct shoal_reader *reader, int nr, char **words)
{
	char *buf = malloc(CAT_BYTES);
	int status = buf ? CLI_OK : cli_fail("cat", "out of memory");

	for (int i = 1; i < nr && status == CLI_OK; i++) {
		uint64_t first = 0, count = 0;

		status = find_samples(a, words[0], cat, words[i], &first, &count);
		for (uint64_t k = 0; status == CLI_OK && k < count; k++)
			status = put_sample(reader, words[0], first + k, buf);
	}
	free(buf);
	return status;
}

static int cmd_cat_run(void *arguments, int nr, char **words)
{
	const struct cmd_cat_arguments *a = arguments;
	struct shoal_catalog *cat = cli_open("cat", words[0], &a->where);
	struct shoal_reader *reader = NULL;
	struct shoal_err err = { "" };
	int rc, status = CLI_FAILED;

	if (!cat)
		return CLI_FAILED;
	rc = shoal_reader_open(cat, a->data, &a->where.config, &reader, &err);
	if (rc == 0 && a->if_match)
		rc = shoal_reader_if_match(reader, &err);
	if (rc < 0)
		cli_fail("cat", "'%s': %s", words[0], cli_words("cat", &err));
	else
		status = put_samples(a, cat, reader, nr, words);
	shoal_reader_close(reader);
	shoal_catalog_close(cat);
	return status;
}

#define AT(field) offsetof(struct cmd_cat_arguments, field)

static const struct cli_option options[] = {
	CLI_FLAG(0, "names", AT(names), "take a NAME of digits as a name, not as an id"),
	CLI_TEXT(0, "data", "URI", AT(data),
		 "read the files in this place (default: the root in the catalog)"),
	CLI_FLAG(0, "if-match", AT(if_match),
		 "fail if an object's ETag differs from the catalog's"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_cat = {
	.name = "cat",
	.summary = "print the bytes of samples",
	.usage = "CATALOG ID|NAME... [OPTION]...",
	.about =
		"Write the bytes of samples to standard output, one after the other: of the sample "
		"with the number ID, or of all samples of the file NAME.",
	.sections = { { .options = options },
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 2,
	.give = "give a catalog, and at least one id or name",
	.size = sizeof(struct cmd_cat_arguments),
	.run = cmd_cat_run,
};
