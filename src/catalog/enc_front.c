/*
 * Names without a shape: front-coded blocks, compressed if that helps.
 *
 * Each block is a segment, so that the directory leads to it. A dictionary is trained on the
 * current names and used if it saves more than its own length on them; later blocks use the newest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zdict.h>
#include <zstd.h>

#include "base/span.h"
#include "catalog/catalog_format.h"
#include "catalog/encode.h"

#define LEVEL        6 /* measured on /usr: 3 is 7 % larger, 12 is 1 % smaller and twice as slow */
#define DICT_MAX     (48u << 10)
#define DICT_SAMPLES (4u << 20) /* bytes of blocks that a dictionary is trained on */
#define SAMPLE_EVERY 8u         /* every how many blocks a dictionary's benefit is measured */
#define DICT_BLOCKS  32u        /* fewer blocks than this cannot pay for a dictionary */

struct front_block {
	uint32_t from, nr;
	uint32_t raw_at, raw_len;
};

struct enc_front {
	ZSTD_CCtx *ctx;
	ZSTD_CDict *dict; /* newest, or NULL */
	uint64_t ratio;   /* compression ratio of the names that it was chosen for */
	uint64_t nr_names,
		next_dict; /* names so far; the number at which to consider a new dictionary */
	struct buf raw;
	struct front_block *blocks;
	uint32_t nr_blocks, cap_blocks;
	uint8_t *stored;
	size_t stored_cap;
};

struct enc_front *enc_front_new(void)
{
	struct enc_front *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	/* Front coding adds at most 4 bytes to a name of at most 4096. */
	f->raw.max = 2 * ENC_BYTES;
	f->stored_cap = ZSTD_compressBound(CAT_FRONT_RAW_MAX);
	f->stored = malloc(f->stored_cap);
	f->cap_blocks = ENC_NAMES / ENC_FRONT_NAMES + ENC_BYTES / (CAT_FRONT_RAW_MAX / 2) + 2;
	f->blocks = calloc(f->cap_blocks, sizeof(*f->blocks));
	f->ctx = ZSTD_createCCtx();
	if (f->stored && f->blocks && f->ctx)
		return f;
	return enc_front_free(f);
}

struct enc_front *enc_front_free(struct enc_front *f)
{
	if (!f)
		return NULL;
	ZSTD_freeCDict(f->dict);
	ZSTD_freeCCtx(f->ctx);
	free(f->blocks);
	free(f->stored);
	buf_release(&f->raw);
	free(f);
	return NULL;
}

void enc_front_restart(struct enc_front *f)
{
	ZSTD_freeCDict(f->dict);
	f->dict = NULL;
	f->ratio = f->nr_names = f->next_dict = 0;
}

/* Front-code names [from, end) into blocks. */
static int make_blocks(struct enc_front *f, const struct enc_names *n, uint32_t from, uint32_t end)
{
	struct front_block *b = NULL;

	buf_clear(&f->raw);
	f->nr_blocks = 0;
	for (uint32_t i = from; i < end; i++) {
		const uint8_t *name = enc_name(n, i);
		uint32_t len = enc_len(n, i);
		size_t keep;

		/* 8: two varints for numbers of at most 4096, with room to spare. */
		if (!b || b->nr == ENC_FRONT_NAMES || b->raw_len + len + 8 > CAT_FRONT_RAW_MAX) {
			if (f->nr_blocks == f->cap_blocks)
				return -EAGAIN;
			b = &f->blocks[f->nr_blocks++];
			*b = (struct front_block){ .from = i,
						   .nr = 1,
						   .raw_at = (uint32_t)f->raw.len };
			continue;
		}
		keep = name_shared(enc_name(n, i - 1), enc_len(n, i - 1), name, len);
		buf_varint(&f->raw, keep);
		buf_varint(&f->raw, len - keep);
		buf_append(&f->raw, name + keep, len - keep);
		b->nr++;
		b->raw_len = (uint32_t)f->raw.len - b->raw_at;
	}
	return f->raw.rc;
}

static size_t compress(struct enc_front *f, const struct front_block *b, const ZSTD_CDict *dict)
{
	const uint8_t *raw;
	size_t n;

	if (b->raw_len == 0) /* one name: there may be no raw bytes at all */
		return SIZE_MAX;
	raw = f->raw.data + b->raw_at;
	n = dict ? ZSTD_compress_usingCDict(f->ctx, f->stored, f->stored_cap, raw, b->raw_len, dict)
		 : ZSTD_compressCCtx(f->ctx, f->stored, f->stored_cap, raw, b->raw_len, LEVEL);
	return ZSTD_isError(n) ? SIZE_MAX : n;
}

/* Estimate from some of the blocks how many bytes 1024 raw bytes take with @dict. */
static uint64_t sample_ratio(struct enc_front *f, const ZSTD_CDict *dict)
{
	uint64_t stored = 0, raw = 1;

	for (uint32_t i = 0; i < f->nr_blocks; i += SAMPLE_EVERY) {
		stored += u64_min(compress(f, &f->blocks[i], dict), f->blocks[i].raw_len);
		raw += f->blocks[i].raw_len;
	}
	return stored * 1024 / raw;
}

/* Train a dictionary on the current blocks into @bytes. Returns its length, 0 on failure. */
static size_t train(struct enc_front *f, void *bytes)
{
	size_t *lens = malloc(f->nr_blocks * sizeof(*lens));
	size_t total = 0, n = 0;
	uint32_t nr = 0;

	if (!lens)
		return 0;
	for (; nr < f->nr_blocks && total < DICT_SAMPLES; nr++) {
		lens[nr] = f->blocks[nr].raw_len;
		total += lens[nr];
	}
	n = ZDICT_trainFromBuffer(bytes, u64_min(DICT_MAX, total / 16), f->raw.data, lens, nr);
	free(lens);
	return ZDICT_isError(n) ? 0 : n;
}

/*
 * Adopt a new dictionary if it saves more than it costs on the current names. Training takes longer
 * than compressing, so it is tried only once the names have become unlike the earlier ones.
 */
static int consider_dictionary(struct cat_encoder *e)
{
	struct enc_front *f = e->front;
	uint64_t ratio = sample_ratio(f, f->dict), better;
	ZSTD_CDict *dict = NULL;
	void *bytes;
	size_t len;
	int rc = 0;

	if (f->dict && ratio * 8 < f->ratio * 9)
		return 0;
	f->next_dict = 2 * f->nr_names; /* so that the number of dictionaries grows with the
					   logarithm of the names */
	f->ratio = ratio; /* the value to compare with, even if no dictionary is better */
	bytes = malloc(DICT_MAX);
	if (!bytes)
		return -ENOMEM;
	len = train(f, bytes);
	if (len)
		dict = ZSTD_createCDict(bytes, len, LEVEL);
	better = dict ? sample_ratio(f, dict) : ratio;
	if (better < ratio && (ratio - better) * f->raw.len / 1024 > len) {
		rc = e->sink.dictionary(e->sink.self, bytes, len);
		ZSTD_freeCDict(f->dict);
		f->dict = dict;
		f->ratio = better;
	} else {
		ZSTD_freeCDict(dict);
	}
	free(bytes);
	return rc;
}

static int front_put_block(struct cat_encoder *e, const struct front_block *b)
{
	struct enc_front *f = e->front;
	const uint8_t *first = enc_name(&e->names, b->from);
	uint32_t first_len = enc_len(&e->names, b->from);
	size_t n = compress(f, b, f->dict);
	bool packed =
		n < b->raw_len -
			    b->raw_len / 8; /* a smaller gain is not worth the time to decompress */

	enc_payload_start(&e->payload, CAT_FRONT, b->nr, first, first_len);
	buf_u8(&e->payload, packed ? (f->dict ? 3 : 1) : 0);
	buf_varint(&e->payload, b->raw_len);
	buf_varint(&e->payload, packed ? n : b->raw_len);
	if (packed)
		buf_append(&e->payload, f->stored, n);
	else if (b->raw_len > 0)
		buf_append(&e->payload, f->raw.data + b->raw_at, b->raw_len);
	if (e->payload.rc < 0)
		return e->payload.rc;
	return e->sink.segment(e->sink.self, &e->payload, b->nr, first, first_len);
}

int enc_front_put(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	int rc = make_blocks(e->front, &e->names, from, end);

	e->front->nr_names += end - from;
	if (rc == 0 && e->front->nr_blocks >= DICT_BLOCKS &&
	    e->front->nr_names >= e->front->next_dict)
		rc = consider_dictionary(e);
	for (uint32_t i = 0; i < e->front->nr_blocks && rc == 0; i++)
		rc = front_put_block(e, &e->front->blocks[i]);
	return rc;
}
