/*
 * Goal: a log gives back what was recorded, and is refused when it was cut or changed anywhere; a
 * trace keeps a bounded sample and always the longest; a replay reads the same bytes again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "help.h"
#include "load/oplog.h"
#include "load/replay.h"
#include "load/trace_private.h"

static uint8_t image[4 * OPLOG_RECORD];
static size_t image_len, op_at;

static void make_image(const char *root)
{
	static uint8_t record[OPLOG_RECORD];
	struct oplog_op op = { 5, 7, 2, 4096, 100, 100, 3, "a/b" };
	struct oplog_op failed = { 6, 1, 0, 0, 50, -ENOENT, 0, "c" };

	image_len = oplog_pack_head(&(struct oplog_head){ 1000, 4 }, image);
	image_len += oplog_pack_root(root, image + image_len);
	op_at = image_len;
	for (int i = 0; i < 2; i++) {
		size_t n = oplog_pack_op(i ? &failed : &op, record);

		memcpy(image + image_len, record, n);
		image_len += n;
	}
	image_len += oplog_pack_end(2, 9, image + image_len);
}

struct seen {
	size_t nr;
	uint64_t sum;
	char names[64];
};

static int see(void *self, const struct oplog_op *op)
{
	struct seen *s = self;

	s->nr++;
	s->sum += op->start + op->duration + op->opened + op->off + op->len + op->rank;
	snprintf(s->names + strlen(s->names), sizeof(s->names) - strlen(s->names), "%s:%lld ",
		 op->name, (long long)op->result);
	return 0;
}

static void a_log_gives_back_what_was_recorded(void **state)
{
	static struct oplog_facts facts;
	struct seen s = { 0, 0, "" };

	(void)state;
	make_image("file:///data");
	assert_int_equal(image_len % 8, 0);
	assert_int_equal(oplog_read(image, image_len, see, &s, &facts, NULL), 0);
	assert_int_equal(facts.nr, 2);
	assert_int_equal(facts.nr_left_out, 9);
	assert_int_equal(facts.head.started, 1000);
	assert_int_equal(facts.head.nr_ranks, 4);
	assert_string_equal(facts.root, "file:///data");
	assert_string_equal(s.names, "a/b:100 c:-2 ");
	assert_int_equal(s.sum, 5 + 7 + 2 + 4096 + 100 + 3 + 6 + 1 + 50);
}

static void a_log_cut_anywhere_is_refused(void **state)
{
	static struct oplog_facts facts;

	(void)state;
	make_image("x");
	for (size_t n = 0; n < image_len; n++) {
		struct seen s = { 0, 0, "" };
		struct shoal_err err = { "" };

		if (oplog_read(image, n, see, &s, &facts, &err) != -EBADMSG || !err.msg[0])
			fail_msg("cut at %zu of %zu it was read", n, image_len);
	}
	image_len += oplog_pack_end(2, 9, image + image_len); /* more after the end */
	assert_int_equal(oplog_read(image, image_len, see, &(struct seen){ 0 }, &facts, NULL),
			 -EBADMSG);
}

static void a_log_changed_anywhere_is_refused(void **state)
{
	static struct oplog_facts facts;

	(void)state;
	make_image("x");
	for (size_t n = 0; n < image_len; n++) {
		struct seen s = { 0, 0, "" };
		int rc;

		image[n] ^= 0x10;
		rc = oplog_read(image, image_len, see, &s, &facts, NULL);
		image[n] ^= 0x10;
		if (rc != -EBADMSG && !(rc == -EPROTONOSUPPORT && n >= 8 && n < 12))
			fail_msg("changed at %zu of %zu: %d", n, image_len, rc);
	}
}

static void a_log_without_a_root_or_with_too_few_operations_is_refused(void **state)
{
	static struct oplog_facts facts;
	static uint8_t bytes[3 * OPLOG_RECORD];
	size_t len = oplog_pack_head(&(struct oplog_head){ 1, 1 }, bytes);
	struct seen s = { 0, 0, "" };

	(void)state;
	len += oplog_pack_end(0, 0, bytes + len);
	assert_int_equal(oplog_read(bytes, len, see, &s, &facts, NULL), -EBADMSG);
	len = OPLOG_HEAD;
	len += oplog_pack_root("x", bytes + len);
	len += oplog_pack_end(1, 0, bytes + len);
	assert_int_equal(oplog_read(bytes, len, see, &s, &facts, NULL), -EBADMSG);
	len = OPLOG_HEAD + oplog_pack_root("x", bytes + OPLOG_HEAD);
	len += oplog_pack_end(0, 0, bytes + len);
	assert_int_equal(oplog_read(bytes, len, see, &s, &facts, NULL), 0);
}

/* ---- The trace ---- */

static void a_pool_is_bounded_and_has_the_longest(void **state)
{
	struct trace_pool p;
	size_t slow = 0;

	(void)state;
	assert_int_equal(trace_pool_init(&p, 64), 0);
	for (uint64_t i = 0; i < 100000; i++) {
		/* The longest come early, late, and where they are not sampled. */
		uint64_t took = i % 997 == 13 ? 1000000 + i : i % 100;
		struct trace_event *e = trace_pool_take(&p, took);

		if (e)
			*e = (struct trace_event){ .start = i, .duration = took };
	}
	assert_true(p.nr <= 64 && p.nr >= 32 && p.nr_slow == TRACE_SLOW_MAX);
	for (size_t i = 0; i < p.nr; i++)
		assert_int_equal(p.kept[i].start % p.every, 0);
	for (size_t i = 0; i < p.nr; i++)
		slow += p.kept[i].duration >= 1000000;
	for (size_t i = 0; i < p.nr_slow; i++)
		slow += p.slow[i].duration >= 1000000;
	assert_int_equal(slow, 101); /* all of them, once */
	trace_pool_release(&p);
}

/* ---- Replay ---- */

static void replay_reads_again_what_was_recorded(void **state)
{
	static struct replay_result r;
	struct replay_options o = { .fast = true, .memory = 1 << 20 };
	struct shoal_err err = { "" };
	const char *path = test_path("log");
	struct comm *comm;
	FILE *f;

	(void)state;
	assert_int_equal(comm_self(&comm, NULL), 0);
	o.comm = comm;
	make_image("null:size=5000");
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(image, 1, image_len, f), image_len);
	fclose(f);
	if (replay_run(path, &o, &r, &err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(r.nr, 1);
	assert_int_equal(r.bytes, 100);
	assert_int_equal(r.nr_recorded_errors, 1);
	assert_int_equal(r.nr_errors + r.nr_differ, 0);
	assert_int_equal(r.log.nr_left_out, 9);
	o.store = "null:size=4150"; /* it ends within the operation */
	assert_int_equal(replay_run(path, &o, &r, &err), 0);
	assert_int_equal(r.nr_differ, 1);
	assert_int_equal(r.bytes, 54);
	f = fopen(path, "w"); /* nothing to replay */
	assert_non_null(f);
	image_len = op_at + oplog_pack_end(0, 0, image + op_at);
	assert_int_equal(fwrite(image, 1, image_len, f), image_len);
	fclose(f);
	assert_int_equal(replay_run(path, &o, &r, &err), 0);
	assert_int_equal(r.nr, 0);
	unlink(path);
	comm_close(comm);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_gives_back_what_was_recorded),
		cmocka_unit_test(a_log_cut_anywhere_is_refused),
		cmocka_unit_test(a_log_changed_anywhere_is_refused),
		cmocka_unit_test(a_log_without_a_root_or_with_too_few_operations_is_refused),
		cmocka_unit_test(a_pool_is_bounded_and_has_the_longest),
		cmocka_unit_test(replay_reads_again_what_was_recorded),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
