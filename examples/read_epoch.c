/*
 * Read one epoch of a dataset in its order, as a training loop would: read_epoch CATALOG EPOCH.
 *
 *	cc read_epoch.c $(pkg-config --cflags --libs shoal) -o read_epoch
 */
#include <inttypes.h>
#include <shoal.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const struct shoal_err *err)
{
	fprintf(stderr, "read_epoch: %s\n", err->msg);
	return 1;
}

/* What a training step would do with the samples: here only adds up their first bytes. */
static uint64_t train(const struct shoal_batch *batch)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < batch->nr; i++)
		if (batch->sample[i].len > 0)
			sum += *(const unsigned char *)batch->sample[i].data;
	return sum;
}

static int read_epoch(struct shoal_loader *loader, uint64_t epoch)
{
	const struct shoal_batch *batch = NULL;
	struct shoal_load_stats stats;
	struct shoal_err err;
	uint64_t sum = 0;
	int rc = shoal_loader_epoch(loader, epoch, &err);

	while (rc >= 0 && (rc = shoal_loader_next(loader, &batch, &err)) > 0) {
		sum += train(batch);
		shoal_loader_give_back(loader, batch);
	}
	if (rc < 0)
		return fail(&err);
	shoal_loader_stats(loader, &stats);
	printf("epoch %" PRIu64 ": %" PRIu64 " samples, %" PRIu64 " bytes by %s, sum %" PRIu64 "\n",
	       epoch, stats.nr_samples, stats.bytes_delivered, stats.engine, sum);
	return 0;
}

int main(int argc, char **argv)
{
	struct shoal_order_spec spec = { .mode = SHOAL_GLOBAL,
					 .remainder = SHOAL_KEEP,
					 .seed = 42,
					 .nr_ranks = 1,
					 .batch = 32 };
	struct shoal_load_options options = { .in_flight = 64, .prefetch = 2 };
	struct shoal_catalog_info info;
	struct shoal_catalog *cat = NULL;
	struct shoal_loader *loader = NULL;
	struct shoal_err err;
	int status;

	if (argc != 3) {
		fprintf(stderr, "usage: read_epoch CATALOG EPOCH\n");
		return 2;
	}
	if (shoal_catalog_open(argv[1], &cat, &err) < 0)
		return fail(&err);
	shoal_catalog_info(cat, &info);
	spec.nr_samples = info.nr_samples;
	if (shoal_loader_open(cat, &spec, /* rank= */ 0, &options, &loader, &err) < 0)
		status = fail(&err);
	else
		status = read_epoch(loader, strtoull(argv[2], NULL, 10));
	shoal_loader_close(loader);
	shoal_catalog_close(cat);
	return status;
}
