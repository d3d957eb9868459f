/*
 * One operation on an S3 store, for tests/s3, which look at what a server saw of it.
 *
 *   s3_driver URI make                    make the bucket
 *   s3_driver URI stat NAME               print its size
 *   s3_driver URI read NAME OFF LEN       copy to standard output
 *   s3_driver URI write NAME              copy standard input to it, in pieces of 1 MiB less a byte
 *   s3_driver URI abort NAME              the same, but give up before the end
 *   s3_driver URI remove NAME
 *   s3_driver URI load NAME OFF LEN       as read, but by the loader's engine, and say its result
 *   s3_driver URI many NR IN_FLIGHT NAME  the same object that often: print how many were whole
 *
 * Words for an error go to standard error, behind its name, and end it with 1. The numbers of
 * requests, retries and throttles go to standard error last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "load/engine.h"
#include "store/s3/s3_private.h"

#define PIECE ((1u << 20) - 1)

static uint64_t number(const char *text)
{
	uint64_t v = 0;

	if (parse_u64(text, &v) < 0)
		fprintf(stderr, "'%s' is no number\n", text);
	return v;
}

static int make_bucket(struct store_s3 *s3, struct shoal_err *err)
{
	struct s3_request r = { .method = S3_PUT, .err = err };
	struct s3_client *c;
	int rc = s3_pool_take(s3->pool, &c, err);

	if (rc < 0)
		return rc;
	rc = s3_client_do(c, &r, NULL);
	s3_pool_give(s3->pool, c);
	return rc;
}

static int print_size(struct store *s, const char *name, struct shoal_err *err)
{
	struct store_stat st;
	int rc = store_stat(s, name, &st, err);

	if (rc == 0)
		printf("%" PRIu64 "\n", st.size);
	return rc;
}

static int copy_out(struct store *s, const char *name, uint64_t off, uint64_t len,
		    struct shoal_err *err)
{
	char *buf = malloc(len ? len : 1);
	int64_t n = buf ? store_read(s, name, off, buf, len, err) : -ENOMEM;

	if (n > 0)
		fwrite(buf, 1, (size_t)n, stdout);
	free(buf);
	return n < 0 ? (int)n : 0;
}

static int copy_in(struct store *s, const char *name, bool whole, struct shoal_err *err)
{
	struct store_writer *w = NULL;
	char *buf = malloc(PIECE);
	size_t n = 1;
	int rc = buf ? store_create(s, name, &w, err) : -ENOMEM;

	while (rc == 0 && n > 0) {
		n = fread(buf, 1, PIECE, stdin);
		if (n > 0)
			rc = store_write(w, buf, n, err);
	}
	if (rc == 0 && whole)
		rc = store_commit(w, err);
	else
		store_abort(w);
	free(buf);
	return rc;
}

/* ---- Many at once ---- */

struct one {
	struct s3_request request;
	uint64_t sum, got;
};

static int add_up(struct s3_request *r, const void *data, size_t len)
{
	struct one *o = r->self;

	for (size_t i = 0; i < len; i++)
		o->sum += ((const unsigned char *)data)[i];
	o->got += len;
	return 0;
}

static void forget(struct s3_request *r)
{
	struct one *o = r->self;

	o->sum = o->got = 0;
}

static int read_many(struct store_s3 *s3, uint64_t nr, unsigned in_flight, const char *name,
		     struct s3_stats *stats, struct shoal_err *err)
{
	struct one *all = calloc(nr, sizeof(*all));
	struct s3_client *c = NULL;
	char key[STORE_S3_KEY];
	size_t key_len = store_s3_key(s3, name, key);
	uint64_t good = 0;
	int rc = all ? s3_client_new(s3->config, in_flight, &c, err) : -ENOMEM;

	for (uint64_t i = 0; rc == 0 && i < nr; i++) {
		all[i].request = (struct s3_request){ .method = S3_GET,
						      .key = key,
						      .key_len = key_len,
						      .sink = add_up,
						      .again = forget,
						      .self = &all[i],
						      .err = err };
		s3_client_submit(c, &all[i].request);
	}
	while (rc == 0 && s3_client_pending(c) > 0)
		rc = s3_client_run(c, 1000, err);
	for (uint64_t i = 0; rc == 0 && i < nr; i++)
		good += all[i].request.rc == 0 && all[i].sum == all[0].sum &&
			all[i].got == all[0].got;
	printf("%" PRIu64 "\n", good);
	if (c)
		s3_stats_add(stats, s3_client_stats(c));
	s3_client_free(c);
	free(all);
	return rc < 0 ? rc : good == nr ? 0 : -EIO;
}

/* ---- By the loader's engine ---- */

static int load_one(struct load_engine *e, const char *name, uint64_t off, uint64_t len,
		    struct shoal_err *err)
{
	struct load_request r = { .name = name, .off = off, .len = len, .cap = load_cap(off, len) };
	struct load_request *done;
	int rc = 0;

	r.buf = aligned_alloc(LOAD_ALIGN, r.cap);
	if (!r.buf)
		return -ENOMEM;
	load_engine_submit(e, &r);
	while (rc == 0)
		rc = load_engine_reap(e, &done, 1, 1000000, err);
	if (rc == 1 && r.result < 0)
		rc = load_engine_why(e, &r, err);
	if (rc == 1)
		fwrite(r.data, 1, u64_min((uint64_t)r.result, len), stdout);
	if (rc == 1)
		fprintf(stderr, "result %" PRId64 "\n", r.result);
	free(r.buf);
	return rc < 0 ? rc : 0;
}

/* Wait for what never comes, woken before the wait began and while others were sent. */
static int wait_woken(struct store *s, const char *name, struct shoal_err *err)
{
	const struct load_engine_options options = { .store = s, .in_flight = 2 };
	struct load_engine *e = NULL;
	struct load_request r = { .name = name, .len = 1, .cap = load_cap(0, 1) }, *done;
	int rc = load_engine_new(&options, &e, err);

	r.buf = rc == 0 ? aligned_alloc(LOAD_ALIGN, r.cap) : NULL;
	if (rc == 0 && !r.buf)
		rc = -ENOMEM;
	if (rc == 0) {
		load_engine_submit(e, &r);
		load_engine_wake(e);
		load_engine_kick(e);
		rc = load_engine_reap(e, &done, 1, 10 * 1000000, err);
	}
	load_engine_free(e);
	free(r.buf);
	return rc < 0 ? rc : 0;
}

static int load(struct store *s, const char *name, uint64_t off, uint64_t len,
		struct shoal_err *err)
{
	const struct load_engine_options options = { .store = s, .in_flight = 2 };
	struct load_engine *e = NULL;
	int rc = load_engine_new(&options, &e, err);

	if (rc == 0)
		rc = load_one(e, name, off, len, err);
	load_engine_free(e);
	return rc;
}

int main(int argc, char **argv)
{
	static struct s3_stats stats, more;
	struct store *s = NULL;
	struct shoal_err err = { "" };
	const char *verb = argc > 2 ? argv[2] : "", *name = argc > 3 ? argv[3] : "";
	int rc = argc > 2 ? store_open(argv[1], NULL, &s, &err) : -EINVAL;

	if (rc == 0 && strcmp(verb, "make") == 0)
		rc = make_bucket(store_s3_of(s), &err);
	else if (rc == 0 && strcmp(verb, "stat") == 0)
		rc = print_size(s, name, &err);
	else if (rc == 0 && strcmp(verb, "read") == 0 && argc == 6)
		rc = copy_out(s, name, number(argv[4]), number(argv[5]), &err);
	else if (rc == 0 && (strcmp(verb, "write") == 0 || strcmp(verb, "abort") == 0))
		rc = copy_in(s, name, verb[0] == 'w', &err);
	else if (rc == 0 && strcmp(verb, "remove") == 0)
		rc = store_remove(s, name, &err);
	else if (rc == 0 && strcmp(verb, "many") == 0 && argc == 6)
		rc = read_many(store_s3_of(s), number(argv[3]), (unsigned)number(argv[4]), argv[5],
			       &stats, &err);
	else if (rc == 0 && strcmp(verb, "load") == 0 && argc == 6)
		rc = load(s, name, number(argv[4]), number(argv[5]), &err);
	else if (rc == 0 && strcmp(verb, "wake") == 0)
		rc = wait_woken(s, name, &err);
	else if (rc == 0)
		rc = -EINVAL;
	if (rc < 0)
		fprintf(stderr, "%s: %s%s%s%s\n", strerrorname_np(-rc), err.msg,
			err.hint ? " (hint: " : "", err.hint ? shoal_hint_name(err.hint) : "",
			err.hint ? ")" : "");
	if (s) {
		s3_pool_stats(store_s3_of(s)->pool, &more);
		s3_stats_add(&stats, &more);
	}
	fprintf(stderr,
		"requests %" PRIu64 " failed %" PRIu64 " retries %" PRIu64 " throttled %" PRIu64
		" connects %" PRIu64 " in %" PRIu64 " out %" PRIu64 "\n",
		stats.nr_requests, stats.nr_failed, stats.nr_retries, stats.nr_throttled,
		stats.nr_connects, stats.bytes_in, stats.bytes_out);
	store_close(s);
	return rc < 0 ? 1 : 0;
}
