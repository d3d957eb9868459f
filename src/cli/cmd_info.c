/* shoal info: what is in a catalog. */
#include <inttypes.h>

#include "cli/cli.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal info FILE [--json] [--local-copy DIR]\n"
	"\n"
	"Say what is in a catalog, without reading it all.\n"
	"\n"
	"      --json             print the facts as JSON\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if need be\n" CLI_S3_USAGE;

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

static int print_json(const struct shoal_catalog_info *i)
{
	printf("{\n  \"root\": ");
	cli_json_string(i->root);
	printf(",\n");
	printf("  \"files\": %" PRIu64 ",\n  \"samples\": %" PRIu64 ",\n", i->nr_files,
	       i->nr_samples);
	if (i->samples_per_file)
		printf("  \"samples_per_file\": %" PRIu64 ",\n", i->samples_per_file);
	else
		printf("  \"samples_per_file\": null,\n");
	if (i->nr_bytes != SHOAL_SIZE_UNKNOWN)
		printf("  \"bytes\": %" PRIu64 ",\n", i->nr_bytes);
	else
		printf("  \"bytes\": null,\n");
	printf("  \"etags\": %s,\n", i->etags ? "true" : "false");
	printf("  \"file_bytes\": %" PRIu64 ",\n  \"bytes_per_name\": %.6f,\n", i->file_bytes,
	       bytes_per_name(i));
	printf("  \"segments\": %" PRIu64 ",\n  \"digest\": \"%s\",\n  \"version\": %" PRIu32
	       "\n}\n",
	       i->nr_segments, i->digest, i->version);
	return CLI_OK;
}

static int print_text(const struct shoal_catalog_info *i)
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
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;
	bool json = false;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":h", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (c != OPT_JSON)
			return CLI_USAGE;
		json = true;
	}
	if (argc - optind != 1)
		return cli_usage("info", "give one catalog");
	cat = cli_open("info", argv[optind]);
	if (!cat)
		return CLI_FAILED;
	shoal_catalog_info(cat, &info);
	status = json ? print_json(&info) : print_text(&info);
	shoal_catalog_close(cat);
	return status;
}
