/*
 * Any bytes as a catalog that is loaded from: batches come or an error does, each sample is one of
 * the order's and as long as the catalog says, and the reader of single samples agrees.
 */
#include <errno.h>
#include <string.h>

#include "catalog_mutator.h"
#include "file.h"
#include "shoal.h"

#define BATCHES_MAX 16
#define SLOT        4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* The first three bytes choose the order, the rest is the catalog. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	size_t len = 0;

	if (size > 3 && max_size > 3 && seed % 4 > 0)
		len = mutate_catalog(data + 3, size - 3, max_size - 3, seed / 4);
	if (len && seed % 4 == 1)
		LLVMFuzzerMutate(data, 3, 3);
	return len ? len + 3 : LLVMFuzzerMutate(data, size, max_size);
}

static void check_batch(const struct shoal_catalog *cat, const struct shoal_batch *batch,
			uint64_t nr_samples)
{
	uint64_t file, index, bytes;

	for (size_t i = 0; i < batch->nr; i++) {
		const struct shoal_sample *s = &batch->sample[i];

		if (s->id >= nr_samples || (s->error == 0) != (s->data != NULL) || s->len > SLOT)
			abort();
		if (s->error == 0 && shoal_catalog_locate(cat, s->id, &file, &index) == 0 &&
		    shoal_catalog_size(cat, file, &bytes) == 0 && s->len > bytes)
			abort();
	}
}

static void load(const struct shoal_catalog *cat, const struct shoal_order_spec *spec,
		 uint64_t epoch)
{
	struct shoal_load_options options = { .store = "null:",
					      .engine = SHOAL_ENGINE_THREADS,
					      .in_flight = 1,
					      .slot = SLOT,
					      .skip_errors = true,
					      .memory = 1 << 20 };
	struct shoal_loader *loader = NULL;
	const struct shoal_batch *batch;
	struct shoal_err err = { "" };

	if (shoal_loader_open(cat, spec, 0, &options, &loader, &err) < 0) {
		if (!err.msg[0])
			abort();
		return;
	}
	if (shoal_loader_epoch(loader, epoch, &err) == 0)
		for (int i = 0; i < BATCHES_MAX && shoal_loader_next(loader, &batch, &err) > 0;
		     i++) {
			check_batch(cat, batch, spec->nr_samples);
			shoal_loader_give_back(loader, batch);
		}
	shoal_loader_close(loader);
}

static void read_some(const struct shoal_catalog *cat, uint64_t nr_samples)
{
	struct shoal_reader *reader = NULL;
	struct shoal_err err = { "" };
	char part[64];
	uint64_t size;

	if (shoal_reader_open(cat, "null:", NULL, &reader, &err) < 0)
		return;
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t sample = i < 2 ? i : nr_samples - i; /* also some that are not there */

		if (shoal_reader_size(reader, sample, &size, &err) == 0 && sample >= nr_samples)
			abort();
		(void)!shoal_reader_part(reader, sample, i, part, sizeof(part), &err);
	}
	shoal_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_path("load");
	struct shoal_catalog *cat = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };

	if (size < 4)
		return 0;
	fuzz_write(path, data + 3, size - 3);
	if (shoal_catalog_open(path, &cat, &err) == 0) {
		shoal_catalog_info(cat, &info);
		struct shoal_order_spec spec = { .mode = data[0] % (SHOAL_LOCAL + 1),
						 .remainder = data[0] / 8 % (SHOAL_KEEP + 1),
						 .seed = data[1],
						 .nr_samples = info.nr_samples,
						 .unit = data[2] % 5u,
						 .nr_ranks = 1 + data[2] / 64,
						 .batch = 1 + data[1] % 7u };

		load(cat, &spec, data[0]);
		read_some(cat, info.nr_samples);
		shoal_catalog_close(cat);
	} else if (!err.msg[0]) {
		abort();
	}
	unlink(path);
	return 0;
}
