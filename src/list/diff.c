/* The differences between two lists. */
#include "base/name.h"
#include "list/list.h"

#define PROGRESS_EVERY 0x10000u

struct list_diff {
	const struct shoal_diff_options *options;
	struct shoal_compare_result result;
	bool sizes; /* names in both lists */
	uint64_t nr;
};

static int diff_report(const struct list_diff *d, enum shoal_difference what,
		       const struct list_entry *e, uint64_t was, uint64_t is)
{
	if (!d->options->differs)
		return 0;
	return d->options->differs(d->options->self, what, (const char *)e->name, e->len, was, is);
}

/* The name is in both lists. */
static int diff_same_name(struct list_diff *d, const struct list_entry *a,
			  const struct list_entry *b)
{
	if (d->sizes && a->size != b->size) {
		d->result.nr_resized++;
		return diff_report(d, SHOAL_RESIZED, a, a->size, b->size);
	}
	if (a->etag && b->etag && !etag_same(a->etag, b->etag)) {
		d->result.nr_changed++;
		return diff_report(d, SHOAL_CHANGED, a, a->size, b->size);
	}
	d->result.nr_same++;
	return 0;
}

static int diff_entries(struct list_diff *d, const struct list_entry *a, bool has_a,
			const struct list_entry *b, bool has_b, int *ret_order)
{
	int order = has_a ? -1 : 1;

	if (has_a && has_b)
		order = name_compare(a->name, a->len, b->name, b->len);
	*ret_order = order;
	if (order == 0)
		return diff_same_name(d, a, b);
	if (order < 0) {
		d->result.nr_missing++;
		return diff_report(d, SHOAL_MISSING, a, a->size, SHOAL_SIZE_UNKNOWN);
	}
	d->result.nr_new++;
	return diff_report(d, SHOAL_NEW, b, SHOAL_SIZE_UNKNOWN, b->size);
}

int shoal_list_diff(struct shoal_list *old, struct shoal_list *new_list,
		    const struct shoal_diff_options *options,
		    struct shoal_compare_result *ret_result, struct shoal_err *err)
{
	struct list_diff d = { .options = options,
			       .sizes = old->info.sizes && new_list->info.sizes };
	struct list_entry a, b;
	int has_a = list_step(old, &a, err), has_b = has_a < 0 ? 0 : list_step(new_list, &b, err);

	while (has_a > 0 || has_b > 0) {
		int order, rc;

		if (has_a < 0 || has_b < 0)
			break;
		if (stop_requested(options->stop))
			return err_set(err, -ECANCELED, "interrupted");
		if (options->progress && (++d.nr & (PROGRESS_EVERY - 1)) == 0)
			options->progress(options->self, d.nr);
		rc = diff_entries(&d, &a, has_a > 0, &b, has_b > 0, &order);
		if (rc < 0)
			return err_set_errno(err, rc, "the comparison was stopped");
		if (order <= 0)
			has_a = list_step(old, &a, err);
		if (order >= 0 && has_a >= 0)
			has_b = list_step(new_list, &b, err);
	}
	if (has_a < 0 || has_b < 0)
		return has_a < 0 ? has_a : has_b;
	*ret_result = d.result;
	return 0;
}
