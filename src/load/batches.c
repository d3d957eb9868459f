/* Batches by length: the order's arithmetic over a column's sorted samples. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "catalog/sidecar_format.h"
#include "order/buckets.h"

struct shoal_batches {
	const struct shoal_column *column; /* lent */
	struct shoal_batch_spec spec;      /* with the defaults put in */
	struct buckets *buckets;
	struct shoal_order *order; /* of batches */
	uint64_t epoch;
};

static int source_samples(const void *self, uint64_t place, uint64_t nr, uint64_t *ids)
{
	return shoal_column_sorted(self, place, nr, ids);
}

/* What a value counts as: the length, rounded up; nothing below 0. */
static int length_of(const struct side_view *v, const void *value, uint64_t *ret_length)
{
	uint64_t key = side_key(v->type, value, 0);
	float small;
	double large;

	*ret_length = key;
	if (v->type == SHOAL_I64) {
		*ret_length = key >> 63 ? key & ~(UINT64_C(1) << 63) : 0;
	} else if (v->type == SHOAL_F32 || v->type == SHOAL_F64) {
		memcpy(&small, value, sizeof(small));
		memcpy(&large, value, v->type == SHOAL_F64 ? sizeof(large) : sizeof(small));
		large = v->type == SHOAL_F64 ? large : (double)small;
		if (!(large < 1e18))
			return -EDOM; /* also what is no number */
		*ret_length = large > 0 ? (uint64_t)large + ((double)(uint64_t)large < large) : 0;
	}
	return 0;
}

static int source_length(const void *self, uint64_t place, uint64_t *ret_length)
{
	const struct shoal_column *column = self;
	uint64_t id = 0, value = 0;
	int rc = shoal_column_sorted(column, place, 1, &id);

	if (rc == 0)
		rc = shoal_column_read(column, id, 1, &value);
	return rc < 0 ? rc : length_of(&column->view, &value, ret_length);
}

static int explain(const struct shoal_column *column, int rc, struct shoal_err *err)
{
	const char *name = column->view.name;

	if (rc == -EBADMSG)
		return shoal_fail(err, rc, "damaged column '%s': make it again", name);
	if (rc == -ESTALE)
		return shoal_fail(err, rc, "column '%s' was cut short while it was in use", name);
	if (rc == -EDOM)
		return shoal_fail(err, rc, "column '%s' has values that are no length", name);
	return rc;
}

static int start_order(struct shoal_batches *b, uint64_t epoch, struct shoal_err *err)
{
	struct shoal_order_spec spec = {
		/* In groups of similar batches, so that ranks have as much to do in a step. */
		.mode = b->spec.in_order ? SHOAL_SEQUENTIAL : SHOAL_FILES,
		.unit = b->spec.group,
		.remainder = b->spec.remainder,
		.seed = b->spec.seed,
		.frozen = b->spec.frozen,
		.nr_samples = buckets_nr_batches(b->buckets),
		.nr_ranks = b->spec.nr_ranks,
		.batch = 1,
		.consumed = b->spec.consumed,
	};

	b->epoch = epoch;
	return shoal_order_new(&spec, epoch, &b->order, err);
}

int shoal_batches_new(const struct shoal_column *column, const struct shoal_batch_spec *spec,
		      uint64_t epoch, struct shoal_batches **ret_batches, struct shoal_err *err)
{
	struct bucket_source source = { .self = column,
					.nr = column->view.nr_order,
					.samples = source_samples,
					.length = source_length };
	struct shoal_batches *b;
	int rc;

	if (source.nr == SIDE_NO_ORDER)
		return shoal_fail(err, -EINVAL,
				  "column '%s' is not sorted: sort it first (shoal column sort)",
				  column->view.name);
	b = calloc(1, sizeof(*b));
	if (!b)
		return shoal_fail(err, -ENOMEM, "out of memory for batches");
	b->column = column;
	b->spec = *spec;
	if (!b->spec.group)
		b->spec.group = shoal_max(b->spec.nr_ranks, 1);
	rc = explain(column, buckets_new(&source, &b->spec, &b->buckets, err), err);
	if (rc == 0)
		rc = start_order(b, epoch, err);
	if (rc < 0) {
		shoal_batches_free(b);
		return rc;
	}
	*ret_batches = b;
	return 0;
}

struct shoal_batches *shoal_batches_free(struct shoal_batches *batches)
{
	if (batches) {
		buckets_free(batches->buckets);
		shoal_order_free(batches->order);
	}
	free(batches);
	return NULL;
}

void shoal_batches_set_epoch(struct shoal_batches *batches, uint64_t epoch)
{
	batches->spec.consumed = 0;
	batches->epoch = epoch;
	shoal_order_set_epoch(batches->order, epoch);
}

const struct shoal_batch_spec *shoal_batches_spec(const struct shoal_batches *batches)
{
	return &batches->spec;
}

uint64_t shoal_batches_steps(const struct shoal_batches *batches)
{
	return shoal_order_steps(batches->order);
}

uint64_t shoal_batches_count(const struct shoal_batches *batches)
{
	return buckets_nr_batches(batches->buckets);
}

uint64_t shoal_batches_largest(const struct shoal_batches *batches)
{
	return buckets_largest(batches->buckets);
}

int64_t shoal_batches_get(const struct shoal_batches *batches, uint64_t step, uint64_t rank,
			  uint64_t *ids)
{
	uint64_t number;
	int64_t nr = shoal_order_batch(batches->order, step, rank, &number);

	return nr <= 0 ? nr : buckets_batch(batches->buckets, batches->epoch, number, ids);
}

/* ---- Save and resume -------------------------------------------------------------------- */

/* What a number of consumed batches means: all that decides which batch comes when. */
static uint64_t meaning(const struct shoal_batches *b)
{
	const struct side_header *h = (const struct side_header *)b->column->view.base;
	struct shoal_le64 word[] = {
		shoal_le64_of(UINT64_C(0x316c616f6873)), /* "shoal1" */
		h->sums_checksum,                        /* stands for all values and their order */
		shoal_le64_of(b->spec.batch),
		shoal_le64_of(b->spec.max_tokens),
		shoal_le64_of(b->spec.bucket),
		shoal_le64_of(b->spec.group),
		shoal_le64_of((uint64_t)b->spec.frozen << 1 | b->spec.in_order),
	};

	return XXH3_64bits(word, sizeof(word));
}

void shoal_batches_save(const struct shoal_batches *batches, uint64_t steps,
			struct shoal_order_state *ret_state)
{
	struct shoal_column_info info;

	shoal_column_info(batches->column, &info);
	shoal_order_save(batches->order, steps, info.digest, ret_state);
	ret_state->nr_ranks = 0;
	ret_state->order = meaning(batches);
}

int shoal_batches_resume(const struct shoal_column *column, const struct shoal_batch_spec *spec,
			 const struct shoal_order_state *state, struct shoal_batches **ret_batches,
			 struct shoal_err *err)
{
	struct shoal_batch_spec next = *spec;
	struct shoal_batches *b = NULL;
	struct shoal_column_info info;
	int rc;

	shoal_column_info(column, &info);
	if (strncmp(info.digest, state->digest, sizeof(state->digest)) != 0)
		return shoal_fail(err, -ESTALE,
				  "the state belongs to the catalog with digest %.*s, not %s: open "
				  "that one, or start a new run",
				  (int)sizeof(state->digest), state->digest, info.digest);
	next.seed = state->seed;
	next.consumed = state->consumed;
	rc = shoal_batches_new(column, &next, state->epoch, &b, err);
	if (rc < 0)
		return rc;
	if (meaning(b) != state->order) {
		shoal_batches_free(b);
		return shoal_fail(err, -ENOTSUP,
				  "the state was saved with other batches: another column, batch, "
				  "max_tokens, bucket or group; resume it with its own, or start a "
				  "new epoch");
	}
	*ret_batches = b;
	return 0;
}
