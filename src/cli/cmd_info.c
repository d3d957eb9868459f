/* shoal info: what is in a catalog. */
#include <inttypes.h>

#include "cli/cli.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal info FILE [--json] [--local-copy DIR]\n"
	"\n"
	"Describe a catalog, without reading all of it.\n"
	"\n"
	"      --json             print the facts as JSON\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if necessary\n" CLI_S3_USAGE;

enum { OPT_JSON = 256 };

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON }, CLI_LOCAL_COPY, CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },      { 0 },
};

static double bytes_per_name(const struct shoal_catalog_info *i)
{
	if (i->nr_files == 0)
		return 0;
	return (double)(i->file_bytes - i->size_bytes - i->etag_bytes) / (double)i->nr_files;
}

static int cmd_info_print_json(const struct shoal_catalog_info *i)
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
	json_close_object(&j);
	return CLI_OK;
}

static int cmd_info_print_text(const struct shoal_catalog_info *i)
{
	printf("root            %s\n", i->root);
	printf("files           %" PRIu64 "\n", i->nr_files);
	printf("samples         %" PRIu64 "\n", i->nr_samples);
	if (i->nr_bytes == SHOAL_SIZE_UNKNOWN)
		printf("bytes           not known\n");
	else
		printf("bytes           %" PRIu64 "\n", i->nr_bytes);
	printf("etags           %s\n", i->etags ? "yes" : "no");
	printf("file_bytes      %" PRIu64 "\n", i->file_bytes);
	printf("bytes_per_name  %.4f\n", bytes_per_name(i));
	printf("segments        %" PRIu64 "\n", i->nr_segments);
	printf("digest          %s\n", i->digest);
	printf("version         %" PRIu32 "\n", i->version);
	return CLI_OK;
}

int cmd_info(int argc, char **argv)
{
	struct cli_where where = { 0 };
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;
	bool json = false;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":h", longs, &where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (c != OPT_JSON)
			return CLI_USAGE;
		json = true;
	}
	if (argc - optind != 1)
		return cli_usage("info", "give one catalog");
	cat = cli_open("info", argv[optind], &where);
	if (!cat)
		return CLI_FAILED;
	shoal_catalog_info(cat, &info);
	status = json ? cmd_info_print_json(&info) : cmd_info_print_text(&info);
	shoal_catalog_close(cat);
	return status;
}
