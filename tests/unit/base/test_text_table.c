/*
 * Goal: a table is as wide as its owner wants where there is room, otherwise as narrow as its
 * contents allow; and columns are left out in their order until it fits.
 */
#include "base/text_table.h"

#include <stdio.h>

#include "help.h"

static const struct text_column columns[] = {
	{ "name", -8, 0 }, { "rate", 8, 0 }, { "of", 4, 2 }, { "lowest", 8, 1 }, { "", -1, 0 },
};

static void fill(const void *self, size_t row, char (*cell)[TEXT_TABLE_CELL])
{
	const char *const(*text)[5] = self;

	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		snprintf(cell[i], TEXT_TABLE_CELL, "%s", text[row][i]);
}

static void is_printed(size_t window, const char *want)
{
	static const char *const rows[][5] = {
		{ "a", "12", "3", "7", "mark" },
		{ "larger", "123,456", "3", "-", "" },
	};
	struct text_table t = { .columns = columns,
				.nr_columns = ARRAY_LEN(columns),
				.nr_rows = ARRAY_LEN(rows),
				.fill = fill,
				.self = rows };
	struct buf buf = { .max = 1000 };

	text_table_put(&t, window, &buf);
	buf_u8(&buf, 0);
	assert_int_equal(buf.rc, 0);
	assert_string_equal((const char *)buf.data, want);
	buf_release(&buf);
}

static void with_room_columns_have_the_width_that_they_were_given(void **state)
{
	static const char wide[] = "name         rate   of   lowest\n"
				   "a              12    3        7  mark\n"
				   "larger    123,456    3        -\n";

	(void)state;
	is_printed(0, wide);
	is_printed(38, wide);
}

static void without_it_they_are_as_wide_as_their_contents(void **state)
{
	static const char close[] = "name       rate  of  lowest\n"
				    "a            12   3       7  mark\n"
				    "larger  123,456   3       -\n";

	(void)state;
	is_printed(37, close);
	is_printed(34, close);
}

static void then_they_are_left_out_in_their_order_but_for_the_last_ones(void **state)
{
	static const char least[] = "name       rate\n"
				    "a            12  mark\n"
				    "larger  123,456\n";

	(void)state;
	is_printed(33, "name       rate  lowest\n"
		       "a            12       7  mark\n"
		       "larger  123,456       -\n");
	is_printed(29, least);
	is_printed(1, least);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_room_columns_have_the_width_that_they_were_given),
		cmocka_unit_test(without_it_they_are_as_wide_as_their_contents),
		cmocka_unit_test(then_they_are_left_out_in_their_order_but_for_the_last_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
