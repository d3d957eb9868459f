/* Batches by length: the order's arithmetic applied to a column's sorted samples. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/err.h"
#include "base/le.h"
#include "order/buckets.h"

struct shoal_batches {
	const struct shoal_column *column; /* lent */
	struct shoal_batch_spec spec;      /* with the defaults filled in */
	struct buckets *buckets;
	struct shoal_order *order; /* number of batches */
	uint64_t epoch;
};

static int source_samples(const void *self, uint64_t place, uint64_t nr, uint64_t *ids)
{
	return shoal_column_sorted(self, place, nr, ids);
}

/* One value, as shoal_column_read() returns it for the column's type. */
union value {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	int64_t i64;
	float f32;
	double f64;
};

/* The length that a value stands for: rounded up, and 0 if it is negative. */
static int length_of(enum shoal_column_type type, const union value *value, uint64_t *ret_length)
{
	double number;

	switch (type) {
	case SHOAL_BIT:
	case SHOAL_U8:
		*ret_length = value->u8;
		return 0;
	case SHOAL_U16:
		*ret_length = value->u16;
		return 0;
	case SHOAL_U32:
		*ret_length = value->u32;
		return 0;
	case SHOAL_I64:
		*ret_length = value->i64 > 0 ? (uint64_t)value->i64 : 0;
		return 0;
	case SHOAL_F32:
		number = (double)value->f32;
		break;
	case SHOAL_F64:
		number = value->f64;
		break;
	case SHOAL_U64:
	default:
		*ret_length = value->u64;
		return 0;
	}
	if (!(number < 1e18))
		return -EDOM; /* NaN as well */
	*ret_length = number > 0 ? (uint64_t)number + ((double)(uint64_t)number < number) : 0;
	return 0;
}

static int source_length(const void *self, uint64_t place, uint64_t *ret_length)
{
	const struct shoal_column *column = self;
	union value value = { .u64 = 0 };
	struct shoal_column_info info;
	uint64_t id = 0;
	int rc = shoal_column_sorted(column, place, 1, &id);

	if (rc == 0)
		rc = shoal_column_read(column, id, 1, &value);
	shoal_column_info(column, &info);
	return rc < 0 ? rc : length_of(info.type, &value, ret_length);
}

static int batches_explain(const char *name, int rc, struct shoal_err *err)
{
	if (rc == -EBADMSG)
		return err_set(err, rc, "damaged column '%s': make it again", name);
	if (rc == -ESTALE)
		return err_set(err, rc, "column '%s' was truncated while it was in use", name);
	if (rc == -EDOM)
		return err_set(err, rc, "column '%s' has values that are not lengths", name);
	return rc;
}

static int start_order(struct shoal_batches *b, uint64_t epoch, struct shoal_err *err)
{
	struct shoal_order_spec spec = {
		/* In groups of similar batches, so that all ranks have equal work in a step. */
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
					.samples = source_samples,
					.length = source_length };
	struct shoal_column_info info;
	struct shoal_batches *b;
	int rc;

	shoal_column_info(column, &info);
	source.nr = info.nr_sorted;
	if (source.nr == SHOAL_UNSORTED)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_SORT_COLUMN,
				    "column '%s' is not sorted", info.name);
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "out of memory for batches");
	b->column = column;
	b->spec = *spec;
	if (!b->spec.group)
		b->spec.group = u64_max(b->spec.nr_ranks, 1);
	rc = batches_explain(info.name, buckets_new(&source, &b->spec, &b->buckets, err), err);
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

/* What the number of consumed batches depends on: everything that decides which batch comes
 * when. */
static uint64_t meaning(const struct shoal_batches *b)
{
	struct shoal_column_info info;
	struct le64 word[] = {
		le64_of(UINT64_C(0x316c616f6873)), /* "shoal1" */
		le64_of(0), /* hash of everything below: all values and their order */
		le64_of(b->spec.batch),
		le64_of(b->spec.max_tokens),
		le64_of(b->spec.bucket),
		le64_of(b->spec.group),
		le64_of((uint64_t)b->spec.frozen << 1 | b->spec.in_order),
	};

	shoal_column_info(b->column, &info);
	word[1] = le64_of(info.hash);
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
		return err_set(err, -ESTALE,
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
		return err_set(err, -ENOTSUP,
			       "the state was saved with other batches: another column, batch, "
			       "max_tokens, bucket or group; resume it with its own, or start a "
			       "new epoch");
	}
	*ret_batches = b;
	return 0;
}
