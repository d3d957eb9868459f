/* shoal info: what is in a catalog. */
#include <inttypes.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/s3_options.h"
#include "shoal.h"

struct cmd_info_arguments {
	struct cli_where where;
	bool json;
};

static double bytes_per_name(const struct shoal_catalog_info *i)
{
	if (i->nr_files == 0)
		return 0;
	return (double)(i->file_bytes - i->size_bytes - i->etag_bytes - i->extent_bytes) /
	       (double)i->nr_files;
}

/* The formats of files whose samples are known, and the size of their extents. */
static void print_json_formats(struct json *j, const struct shoal_catalog *cat,
			       const struct shoal_catalog_info *i)
{
	struct shoal_format_count f;

	json_u64(j, "extents", i->nr_extents);
	json_u64(j, "extent_bytes", i->extent_bytes);
	json_u64(j, "longest_sample", i->longest);
	json_open_object(j, "formats");
	for (uint64_t k = 0; shoal_catalog_format(cat, k, &f) == 0; k++) {
		json_open_object(j, f.name);
		json_u64(j, "files", f.nr_files);
		json_u64(j, "samples", f.nr_samples);
		json_close_object(j);
	}
	json_close_object(j);
}

static void print_formats(const struct shoal_catalog *cat, const struct shoal_catalog_info *i)
{
	struct shoal_format_count f;

	printf("extents         %" PRIu64 "\n", i->nr_extents);
	printf("extent_bytes    %" PRIu64 "\n", i->extent_bytes);
	printf("longest_sample  %" PRIu64 "\n", i->longest);
	for (uint64_t k = 0; shoal_catalog_format(cat, k, &f) == 0; k++)
		printf("%-15s %" PRIu64 " file%s, %" PRIu64 " sample%s\n", f.name, f.nr_files,
		       plural(f.nr_files), f.nr_samples, plural(f.nr_samples));
}

static int cmd_info_print_json(const struct shoal_catalog *cat, const struct shoal_catalog_info *i)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "root", i->root);
	json_u64(&j, "files", i->nr_files);
	json_u64(&j, "samples", i->nr_samples);
	if (i->samples_per_file)
		json_u64(&j, "samples_per_file", i->samples_per_file);
	else
		json_null(&j, "samples_per_file");
	if (i->nr_bytes != SHOAL_SIZE_UNKNOWN)
		json_u64(&j, "bytes", i->nr_bytes);
	else
		json_null(&j, "bytes");
	json_bool(&j, "etags", i->etags);
	json_u64(&j, "file_bytes", i->file_bytes);
	json_real(&j, "bytes_per_name", bytes_per_name(i), 9);
	json_u64(&j, "segments", i->nr_segments);
	json_string(&j, "digest", i->digest);
	json_u64(&j, "version", i->version);
	if (i->extents)
		print_json_formats(&j, cat, i);
	json_close_object(&j);
	return CLI_OK;
}

static int cmd_info_print_text(const struct shoal_catalog *cat, const struct shoal_catalog_info *i)
{
	printf("root            %s\n", i->root);
	printf("files           %s\n", count_in_words(i->nr_files).text);
	printf("samples         %s\n", count_in_words(i->nr_samples).text);
	if (i->nr_bytes == SHOAL_SIZE_UNKNOWN)
		printf("bytes           not known\n");
	else
		cli_put_bytes(stdout, "bytes           ", i->nr_bytes);
	printf("etags           %s\n", i->etags ? "yes" : "no");
	cli_put_bytes(stdout, "file_bytes      ", i->file_bytes);
	printf("bytes_per_name  %.4f\n", bytes_per_name(i));
	printf("segments        %s\n", count_in_words(i->nr_segments).text);
	printf("digest          %s\n", i->digest);
	printf("version         %" PRIu32 "\n", i->version);
	if (i->extents)
		print_formats(cat, i);
	return CLI_OK;
}

static int cmd_info_run(void *arguments, int nr, char **words)
{
	const struct cmd_info_arguments *a = arguments;
	struct shoal_catalog *cat = cli_open("info", words[0], &a->where);
	struct shoal_catalog_info info;
	int status;

	(void)nr;
	if (!cat)
		return CLI_FAILED;
	shoal_catalog_info(cat, &info);
	status = a->json ? cmd_info_print_json(cat, &info) : cmd_info_print_text(cat, &info);
	shoal_catalog_close(cat);
	return status;
}

#define AT(field) offsetof(struct cmd_info_arguments, field)

static const struct cli_option options[] = {
	CLI_JSON(AT(json)),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_info = {
	.name = "info",
	.summary = "describe a catalog",
	.usage = "CATALOG [OPTION]...",
	.about = "Describe a catalog, without reading all of it.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_info_arguments),
	.run = cmd_info_run,
};
