/*
 * order.c - which sample is at which position of an epoch, and which positions a rank reads.
 *
 * Everything is arithmetic on a position: no call depends on an earlier one. The modes build on one
 * another. A position in SHOAL_FILES is a slot and an offset in it; the slot is permuted into a
 * unit. In SHOAL_WINDOW the positions are first permuted inside their window, and then treated as
 * in SHOAL_FILES. SHOAL_LOCAL has a separate order per rank. With lanes, the positions of
 * SHOAL_SEQUENTIAL, SHOAL_FILES and SHOAL_WINDOW are first dealt to the lanes, as those of
 * SHOAL_LOCAL are to the ranks.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/err.h"
#include "base/le.h"
#include "base/text.h"
#include "order/perm.h"

#define DEFAULT_WINDOW 16

/* Positions processed together when a step needs memory besides the caller's. */
#define CHUNK 256

struct shoal_order {
	struct shoal_order_spec spec; /* with defaults filled in */
	uint64_t epoch;
	uint64_t steps;
	/* FILES, WINDOW: */
	uint64_t nr_units;   /* the last one may be short */
	uint64_t missing;    /* samples that the last unit lacks */
	uint64_t after_last; /* the first position after the last unit's */
	/* LOCAL: a share per rank. Lanes: a share per lane. */
	uint64_t nr_shares;   /* 1: there are no lanes */
	uint64_t share_batch; /* consecutive positions that one share has in a step */
	uint64_t share;       /* samples per share; some have one more */
	uint64_t nr_larger;   /* how many shares have one more */
	uint64_t share_read;  /* LOCAL: samples that each rank has read already */
	struct perm perm;     /* GLOBAL: of samples. FILES, WINDOW: of units */
};

/*
 * A part of the epoch with a permutation of its own: a window, or a rank's share. It is built on
 * the stack of each call, because threads share orders, and is reused while positions stay in it.
 */
struct order_part {
	uint64_t nr; /* number of the window or the rank; in a lane, the first position */
	uint64_t first, count;
	struct perm perm;
};

static struct perm_key key_of(const struct shoal_order *o, uint64_t domain, uint64_t stream)
{
	return (struct perm_key){
		.domain = domain,
		.seed = o->spec.seed,
		.epoch = o->spec.frozen ? 0 : o->epoch,
		.stream = stream,
	};
}

/* No part yet. The rest is left unset: clearing 16 KB would cost more than a small batch. */
static void part_init(struct order_part *part)
{
	part->nr = UINT64_MAX;
	part->first = part->count = 0;
}

/* Make @part the part number @nr, unless it is already. */
static void part_use(const struct shoal_order *o, struct order_part *part, uint64_t domain,
		     uint64_t nr, uint64_t first, uint64_t end)
{
	struct perm_key key = key_of(o, domain, nr);

	if (part->nr == nr)
		return;
	part->nr = nr;
	part->first = first;
	part->count = end - first;
	perm_init(&part->perm, part->count, &key);
}

static uint64_t share_start(const struct shoal_order *o, uint64_t nr)
{
	return u64_scale(nr, o->spec.nr_samples, o->nr_shares);
}

/* The share that has @index of all samples, or positions, in the sequence of the shares. */
static uint64_t share_of(const struct shoal_order *o, uint64_t index)
{
	return (uint64_t)(((unsigned __int128)(index + 1) * o->nr_shares - 1) / o->spec.nr_samples);
}

/* ---- FILES and WINDOW ------------------------------------------------------------------- */

/*
 * The position as it would be if the last unit were complete. Only positions after that unit
 * change, so slots can be found by division.
 */
static uint64_t to_whole(const struct shoal_order *o, uint64_t position)
{
	return position + (position >= o->after_last ? o->missing : 0);
}

/* The position of the first sample in @slot. @slot may equal the number of slots. */
static uint64_t slot_start(const struct shoal_order *o, uint64_t slot)
{
	uint64_t whole = slot * o->spec.unit;

	return whole - (whole >= o->after_last + o->missing ? o->missing : 0);
}

/* Replace positions by ids; the samples of a unit stay in order. */
static void units_map(const struct shoal_order *o, uint64_t *p, size_t nr)
{
	uint64_t slots[CHUNK];

	for (size_t i = 0; i < nr; i++) {
		uint64_t whole = to_whole(o, p[i]);

		slots[i] = whole / o->spec.unit;
		p[i] = whole - slots[i] * o->spec.unit;
	}
	perm_many(&o->perm, slots, nr, slots);
	for (size_t i = 0; i < nr; i++)
		p[i] += slots[i] * o->spec.unit;
}

static uint64_t units_position(const struct shoal_order *o, uint64_t id)
{
	uint64_t unit = id / o->spec.unit;

	return slot_start(o, perm_inverse(&o->perm, unit)) + id % o->spec.unit;
}

/* Make @part the window that contains @position, or the part of it that is in the lane. */
static void window_use(const struct shoal_order *o, struct order_part *part, uint64_t position)
{
	uint64_t window = to_whole(o, position) / o->spec.unit / o->spec.window;
	uint64_t slot = window * o->spec.window;
	uint64_t end = u64_min(o->nr_units - slot, o->spec.window) + slot;
	uint64_t first = slot_start(o, slot), lane;

	end = slot_start(o, end);
	if (o->nr_shares <= 1) {
		part_use(o, part, PERM_WINDOW, window, first, end);
		return;
	}
	lane = share_of(o, position);
	first = u64_max(first, share_start(o, lane));
	part_use(o, part, PERM_LANE, first, first, u64_min(end, share_start(o, lane + 1)));
}

/* Permute positions within their windows, in place. */
static void windows_map(const struct shoal_order *o, struct order_part *part, uint64_t *p,
			size_t nr)
{
	for (size_t done = 0, i = 0; done < nr; done = i) {
		window_use(o, part, p[done]);
		for (; i < nr && p[i] - part->first < part->count; i++)
			p[i] -= part->first;
		perm_many(&part->perm, p + done, i - done, p + done);
		for (size_t k = done; k < i; k++)
			p[k] += part->first;
	}
}

static uint64_t window_position(const struct shoal_order *o, uint64_t position)
{
	struct order_part part;

	part_init(&part);
	window_use(o, &part, position);
	return part.first + perm_inverse(&part.perm, position - part.first);
}

/* ---- LOCAL ------------------------------------------------------------------------------ */

/*
 * Positions of the whole job. They come in steps: first the steps that were read before, counted
 * with this order's batch and a narrower last one; then the steps of this order, also with a
 * narrower last one; and at the end one position for each rank whose share is larger. Within a step
 * the ranks follow one another. So it is a bijection for any batch, and in whole steps it equals
 * all other modes.
 */
static void share_use(const struct shoal_order *o, struct order_part *part, uint64_t rank)
{
	part_use(o, part, PERM_LOCAL, rank, share_start(o, rank), share_start(o, rank + 1));
}

/* The samples per rank that count as read when positions are divided into steps. */
static uint64_t share_before(const struct shoal_order *o)
{
	return u64_min(o->share_read, o->share);
}

/* The rank that reads @position, or its lane, and the index in that share. */
static uint64_t local_split(const struct shoal_order *o, uint64_t position, uint64_t *ret_index)
{
	uint64_t ranks = o->nr_shares, before = share_before(o);
	uint64_t base = position < before * ranks ? 0 : before;
	uint64_t end = position < before * ranks ? before : o->share;
	uint64_t step, width;

	if (position >= o->share * ranks) {
		uint64_t nth = position - o->share * ranks;

		*ret_index = o->share;
		return (uint64_t)(((unsigned __int128)(nth + 1) * ranks - 1) / o->nr_larger);
	}
	position -= base * ranks;
	step = position / (ranks * o->share_batch);
	position -= step * ranks * o->share_batch;
	base += step * o->share_batch;
	width = u64_min(o->share_batch, end - base);
	*ret_index = base + position % width;
	return position / width;
}

/* The inverse of local_split(). */
static uint64_t local_join(const struct shoal_order *o, uint64_t rank, uint64_t index)
{
	uint64_t ranks = o->nr_shares, before = share_before(o);
	uint64_t base = index < before ? 0 : before;
	uint64_t end = index < before ? before : o->share;

	if (index == o->share)
		return o->share * ranks + u64_scale(rank, o->nr_larger, ranks);
	base += (index - base) / o->share_batch * o->share_batch;
	return base * ranks + rank * u64_min(o->share_batch, end - base) + (index - base);
}

/* Replace positions by ids. */
static void local_map(const struct shoal_order *o, struct order_part *part, uint64_t *p, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint64_t index, rank = local_split(o, p[i], &index);

		share_use(o, part, rank);
		p[i] = part->first + perm_at(&part->perm, index);
	}
}

static uint64_t local_position(const struct shoal_order *o, uint64_t id)
{
	struct order_part part;
	uint64_t rank = share_of(o, id);

	part_init(&part);
	share_use(o, &part, rank);
	return local_join(o, rank, perm_inverse(&part.perm, id - part.first));
}

/* Replace positions by those of the mode without lanes: the shares follow one another. */
static void lanes_map(const struct shoal_order *o, uint64_t *p, size_t nr)
{
	for (size_t i = 0; i < nr && o->nr_shares > 1; i++) {
		uint64_t index, lane = local_split(o, p[i], &index);

		p[i] = share_start(o, lane) + index;
	}
}

/* The inverse of lanes_map(). */
static uint64_t lanes_position(const struct shoal_order *o, uint64_t position)
{
	uint64_t lane;

	if (o->nr_shares <= 1)
		return position;
	lane = share_of(o, position);
	return local_join(o, lane, position - share_start(o, lane));
}

static int64_t local_batch(const struct shoal_order *o, uint64_t step, uint64_t rank, uint64_t *ids)
{
	uint64_t index = o->share_read + step * o->spec.batch, nr = o->spec.batch;
	struct order_part part;

	if (share_start(o, rank) == share_start(o, rank + 1))
		return 0; /* more ranks than samples */
	part_init(&part);
	share_use(o, &part, rank);
	if (o->spec.remainder != SHOAL_PAD)
		nr = index < part.count ? u64_min(nr, part.count - index) : 0;
	for (uint64_t done = 0, len; done < nr; done += len) {
		uint64_t at = (index + done) % part.count;

		len = u64_min(nr - done, part.count - at);
		perm_range(&part.perm, at, len, ids + done);
	}
	for (uint64_t i = 0; i < nr; i++)
		ids[i] += part.first;
	return (int64_t)nr;
}

/* ---- The spec --------------------------------------------------------------------------- */

static int check_enums(const struct shoal_order_spec *spec, struct shoal_err *err)
{
	switch (spec->mode) {
	case SHOAL_SEQUENTIAL:
	case SHOAL_GLOBAL:
	case SHOAL_FILES:
	case SHOAL_WINDOW:
	case SHOAL_LOCAL:
		break;
	default:
		return err_set(err, -EINVAL, "unknown mode %d", (int)spec->mode);
	}
	switch (spec->remainder) {
	case SHOAL_DROP:
	case SHOAL_PAD:
	case SHOAL_KEEP:
		return 0;
	default:
		return err_set(err, -EINVAL, "unknown remainder %d", (int)spec->remainder);
	}
}

static int order_check_sizes(const struct shoal_order_spec *spec, struct shoal_err *err)
{
	uint64_t step;

	if (!spec->nr_samples)
		return err_set(err, -EINVAL,
			       "there are no samples to order: nr_samples must be 1 or more");
	if (spec->nr_samples > SHOAL_ORDER_SAMPLES_MAX)
		return err_set(
			err, -EINVAL,
			"%" PRIu64
			" samples are too many: split the dataset, an order has at most 2^48",
			spec->nr_samples);
	if (!spec->nr_ranks)
		return err_set(err, -EINVAL, "there are no ranks: nr_ranks must be 1 or more");
	if (!spec->batch)
		return err_set(err, -EINVAL, "an empty batch: batch must be 1 or more");
	if (__builtin_mul_overflow(spec->nr_ranks, spec->batch, &step) ||
	    step > SHOAL_ORDER_SAMPLES_MAX)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " ranks of batch %" PRIu64
			       " take more than 2^48 samples in a step: use a smaller batch",
			       spec->nr_ranks, spec->batch);
	if (spec->consumed > spec->nr_samples)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " positions are consumed, but there are only %" PRIu64
			       " samples: start a new epoch with consumed 0",
			       spec->consumed, spec->nr_samples);
	return 0;
}

/* Whether all ranks have read the same number of samples: SHOAL_LOCAL has no other states. */
static bool is_whole_share(const struct shoal_order_spec *spec)
{
	return spec->consumed % spec->nr_ranks == 0 || spec->consumed == spec->nr_samples;
}

static bool mode_has_lanes(enum shoal_mode mode)
{
	return mode == SHOAL_SEQUENTIAL || mode == SHOAL_FILES || mode == SHOAL_WINDOW;
}

static int order_check_lanes(const struct shoal_order_spec *spec, struct shoal_err *err)
{
	uint64_t step;

	if (spec->lanes == 1)
		return 0;
	if (!mode_has_lanes(spec->mode))
		return err_set(err, -EINVAL,
			       "%" PRIu64 " lanes: only the modes sequential, files and window "
			       "have lanes",
			       spec->lanes);
	if (__builtin_mul_overflow(spec->lanes, spec->lane_batch, &step) ||
	    step > SHOAL_ORDER_SAMPLES_MAX)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " lanes of batch %" PRIu64
			       " take more than 2^48 samples in a step: use fewer lanes",
			       spec->lanes, spec->lane_batch);
	return 0;
}

static int order_check_mode(const struct shoal_order_spec *spec, struct shoal_err *err)
{
	uint64_t product;

	if (spec->mode == SHOAL_WINDOW &&
	    __builtin_mul_overflow(spec->window, spec->unit, &product))
		return err_set(err, -EINVAL,
			       "a window of %" PRIu64 " units of %" PRIu64
			       " samples exceeds 2^64 samples: use a smaller window",
			       spec->window, spec->unit);
	if (spec->mode != SHOAL_LOCAL)
		return 0;
	if (!is_whole_share(spec))
		return err_set(err, -EINVAL,
			       "%" PRIu64
			       " consumed positions cannot be divided equally among %" PRIu64
			       " ranks: in local mode use a multiple of the number of ranks",
			       spec->consumed, spec->nr_ranks);
	if (spec->remainder == SHOAL_PAD && spec->nr_samples < spec->nr_ranks)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " sample%s leave%s some of %" PRIu64
			       " ranks with nothing to pad with: use fewer ranks, or drop or "
			       "keep the remainder",
			       spec->nr_samples, plural(spec->nr_samples),
			       spec->nr_samples == 1 ? "s" : "", spec->nr_ranks);
	return 0;
}

static int order_check_spec(const struct shoal_order_spec *spec, struct shoal_err *err)
{
	int rc;

	rc = check_enums(spec, err);
	if (rc < 0)
		return rc;
	rc = order_check_sizes(spec, err);
	if (rc == 0)
		rc = order_check_lanes(spec, err);
	if (rc < 0)
		return rc;
	return order_check_mode(spec, err);
}

static struct shoal_order_spec with_defaults(const struct shoal_order_spec *spec)
{
	struct shoal_order_spec full = *spec;

	if (!full.unit)
		full.unit = 1;
	if (!full.window)
		full.window = DEFAULT_WINDOW;
	if (!full.lanes)
		full.lanes = 1;
	if (!full.lane_batch)
		full.lane_batch = full.batch;
	return full;
}

/* ---- An epoch --------------------------------------------------------------------------- */

static uint64_t order_count_steps(const struct shoal_order *o)
{
	const struct shoal_order_spec *s = &o->spec;
	uint64_t left = s->nr_samples - s->consumed, width = s->batch * s->nr_ranks;

	if (s->mode == SHOAL_LOCAL) {
		/* What the smallest share can fill, or what the largest share needs. */
		left = o->share + (s->remainder != SHOAL_DROP && o->nr_larger);
		left -= u64_min(left, o->share_read);
		width = s->batch;
	}
	return s->remainder == SHOAL_DROP ? left / width : u64_divide_up(left, width);
}

static void start_units(struct shoal_order *o)
{
	struct perm_key key = key_of(o, PERM_UNITS, 0);
	uint64_t slot;

	/* The product cannot wrap: with two or more units, each is smaller than T. */
	o->nr_units = u64_divide_up(o->spec.nr_samples, o->spec.unit);
	o->missing = o->nr_units * o->spec.unit - o->spec.nr_samples;
	perm_init(&o->perm, o->nr_units, &key);
	slot = perm_inverse(&o->perm, o->nr_units - 1);
	o->after_last = (slot + 1) * o->spec.unit - o->missing;
}

static void start_shares(struct shoal_order *o)
{
	const struct shoal_order_spec *s = &o->spec;
	bool local = s->mode == SHOAL_LOCAL;

	o->nr_shares = local ? s->nr_ranks : s->lanes;
	o->share_batch = local ? s->batch : s->lane_batch;
	o->share = s->nr_samples / o->nr_shares;
	o->nr_larger = s->nr_samples % o->nr_shares;
	/*
	 * If all samples were read, consumed need not be a multiple of the ranks; round up to cover
	 * the larger shares. Lanes do not depend on what was read before.
	 */
	o->share_read = local ? u64_divide_up(s->consumed, s->nr_ranks) : 0;
}

static void start_epoch(struct shoal_order *o, uint64_t epoch)
{
	struct perm_key key;

	o->epoch = epoch;
	start_shares(o);
	switch (o->spec.mode) {
	case SHOAL_SEQUENTIAL:
		break;
	case SHOAL_GLOBAL:
		key = key_of(o, PERM_GLOBAL, 0);
		perm_init(&o->perm, o->spec.nr_samples, &key);
		break;
	case SHOAL_FILES:
	case SHOAL_WINDOW:
		start_units(o);
		break;
	case SHOAL_LOCAL:
		break;
	}
	o->steps = order_count_steps(o);
}

int shoal_order_new(const struct shoal_order_spec *spec, uint64_t epoch,
		    struct shoal_order **ret_order, struct shoal_err *err)
{
	struct shoal_order_spec full = with_defaults(spec);
	struct shoal_order *o;
	int rc;

	rc = order_check_spec(&full, err);
	if (rc < 0)
		return rc;
	o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(err, -ENOMEM, "out of memory for an order");
	o->spec = full;
	start_epoch(o, epoch);
	*ret_order = o;
	return 0;
}

struct shoal_order *shoal_order_free(struct shoal_order *order)
{
	free(order);
	return NULL;
}

void shoal_order_set_epoch(struct shoal_order *order, uint64_t epoch)
{
	order->spec.consumed = 0;
	start_epoch(order, epoch);
}

const struct shoal_order_spec *shoal_order_spec(const struct shoal_order *order)
{
	return &order->spec;
}

uint64_t shoal_order_steps(const struct shoal_order *order)
{
	return order->steps;
}

/* ---- Positions and ids ------------------------------------------------------------------ */

/* Replace @nr positions, at most one chunk, by ids. */
static void chunk_map(const struct shoal_order *o, struct order_part *part, uint64_t *p, size_t nr)
{
	if (mode_has_lanes(o->spec.mode))
		lanes_map(o, p, nr);
	switch (o->spec.mode) {
	case SHOAL_SEQUENTIAL:
		break;
	case SHOAL_GLOBAL:
		perm_many(&o->perm, p, nr, p);
		break;
	case SHOAL_WINDOW:
		windows_map(o, part, p, nr);
		units_map(o, p, nr);
		break;
	case SHOAL_FILES:
		units_map(o, p, nr);
		break;
	case SHOAL_LOCAL:
		local_map(o, part, p, nr);
		break;
	}
}

/* The ids at consecutive positions, all below nr_samples. */
static void order_map_range(const struct shoal_order *o, struct order_part *part, uint64_t first,
			    uint64_t nr, uint64_t *ids)
{
	if (o->spec.mode == SHOAL_GLOBAL) {
		perm_range(&o->perm, first, nr, ids);
		return;
	}
	for (uint64_t done = 0, len; done < nr; done += len) {
		len = u64_min(nr - done, CHUNK);
		for (uint64_t i = 0; i < len; i++)
			ids[done + i] = first + done + i;
		chunk_map(o, part, ids + done, len);
	}
}

int64_t shoal_order_batch(const struct shoal_order *order, uint64_t step, uint64_t rank,
			  uint64_t *ids)
{
	const struct shoal_order_spec *s = &order->spec;
	struct order_part part;
	uint64_t first, nr = s->batch;

	if (step >= order->steps || rank >= s->nr_ranks)
		return -ERANGE;
	if (s->mode == SHOAL_LOCAL)
		return local_batch(order, step, rank, ids);
	part_init(&part);
	first = s->consumed + (step * s->nr_ranks + rank) * s->batch;
	if (s->remainder != SHOAL_PAD)
		nr = first < s->nr_samples ? u64_min(nr, s->nr_samples - first) : 0;
	for (uint64_t done = 0, len; done < nr; done += len) {
		uint64_t at = (first + done) % s->nr_samples;

		len = u64_min(nr - done, s->nr_samples - at);
		order_map_range(order, &part, at, len, ids + done);
	}
	return (int64_t)nr;
}

int shoal_order_at(const struct shoal_order *order, const uint64_t *positions, size_t nr,
		   uint64_t *ids)
{
	struct order_part part;

	part_init(&part);
	for (size_t i = 0; i < nr; i++)
		if (positions[i] >= order->spec.nr_samples)
			return -ERANGE;
	for (size_t done = 0, len; done < nr; done += len) {
		len = u64_min(nr - done, CHUNK);
		memmove(ids + done, positions + done, len * sizeof(*ids));
		chunk_map(order, &part, ids + done, len);
	}
	return 0;
}

int shoal_order_position(const struct shoal_order *order, uint64_t id, uint64_t *ret_position)
{
	if (id >= order->spec.nr_samples)
		return -ERANGE;
	switch (order->spec.mode) {
	case SHOAL_SEQUENTIAL:
		*ret_position = lanes_position(order, id);
		break;
	case SHOAL_GLOBAL:
		*ret_position = perm_inverse(&order->perm, id);
		break;
	case SHOAL_FILES:
		*ret_position = lanes_position(order, units_position(order, id));
		break;
	case SHOAL_WINDOW:
		*ret_position =
			lanes_position(order, window_position(order, units_position(order, id)));
		break;
	case SHOAL_LOCAL:
		*ret_position = local_position(order, id);
		break;
	}
	return 0;
}

/* ---- Save and resume -------------------------------------------------------------------- */

/* Hash everything in the spec that decides which sample a position has. */
static uint64_t order_hash(const struct shoal_order_spec *s)
{
	bool units = s->mode == SHOAL_FILES || s->mode == SHOAL_WINDOW;
	struct le64 word[] = {
		le64_of(UINT64_C(0x316f6c616f6873)), /* "shoalo1" */
		le64_of(s->mode),
		le64_of(s->nr_samples),
		le64_of(s->mode != SHOAL_SEQUENTIAL && s->frozen),
		le64_of(units ? s->unit : 0),
		le64_of(s->mode == SHOAL_WINDOW ? s->window : 0),
		le64_of(s->lanes),
		le64_of(s->lane_batch),
	};

	/* With one lane the hash is that of releases that had no lanes. */
	return XXH3_64bits(word, s->lanes > 1 ? sizeof(word) : sizeof(word) - 2 * sizeof(word[0]));
}

void shoal_order_save(const struct shoal_order *order, uint64_t steps, const char *digest,
		      struct shoal_order_state *ret_state)
{
	const struct shoal_order_spec *s = &order->spec;
	struct shoal_order_state state = { .seed = s->seed,
					   .epoch = order->epoch,
					   .order = order_hash(s) };
	size_t len = strnlen(digest, sizeof(state.digest));

	assert(len < sizeof(state.digest));
	memcpy(state.digest, digest, len);
	steps = u64_min(steps, order->steps);
	/* The last step may extend past the end: padding and short batches are not positions. */
	state.consumed = u64_min(s->consumed + steps * s->nr_ranks * s->batch, s->nr_samples);
	if (s->mode == SHOAL_LOCAL)
		state.nr_ranks = s->nr_ranks;
	if (s->lanes > 1) {
		state.lanes = s->lanes;
		state.lane_batch = s->lane_batch;
	}
	*ret_state = state;
}

/*
 * Check that the number of ranks in a state, which only SHOAL_LOCAL records, allows @spec to
 * resume.
 */
static int check_state_ranks(const struct shoal_order_spec *spec,
			     const struct shoal_order_state *state, struct shoal_err *err)
{
	if (spec->mode != SHOAL_LOCAL && state->nr_ranks)
		return err_set(
			err, -ENOTSUP,
			"the state was saved in local mode: resume it in local mode, or start a new epoch");
	if (spec->mode != SHOAL_LOCAL || !state->consumed)
		return 0;
	if (!state->nr_ranks)
		return err_set(
			err, -ENOTSUP,
			"the state was not saved in local mode: resume it in its own mode, or start a new epoch");
	if (state->nr_ranks != spec->nr_ranks)
		return err_set(
			err, -ENOTSUP,
			"the state was saved by %" PRIu64
			" ranks, and in local mode each has its own share: resume with as many, not %" PRIu64
			", or start a new epoch",
			state->nr_ranks, spec->nr_ranks);
	return 0;
}

int shoal_order_resume(const struct shoal_order_spec *spec, const struct shoal_order_state *state,
		       const char *digest, struct shoal_order **ret_order, struct shoal_err *err)
{
	struct shoal_order_spec next = *spec;
	int rc;

	if (strncmp(state->digest, digest, sizeof(state->digest)) != 0)
		return err_set(
			err, -ESTALE,
			"the state belongs to the catalog with digest %.*s, not %s: open that one, or start a new run",
			(int)sizeof(state->digest), state->digest, digest);
	rc = check_state_ranks(spec, state, err);
	if (rc < 0)
		return rc;
	if (!next.lanes && state->lanes) { /* the state's lanes, if the spec does not give any */
		next.lanes = state->lanes;
		next.lane_batch = next.lane_batch ? next.lane_batch : state->lane_batch;
	}
	next = with_defaults(&next);
	if (order_hash(&next) != state->order)
		return err_set(
			err, -ENOTSUP,
			"the state was saved with another mode, unit, window, lanes, frozen or number of samples: resume it with its own, or start a new epoch");
	next.seed = state->seed;
	next.consumed = state->consumed;
	return shoal_order_new(&next, state->epoch, ret_order, err);
}
