#include "report/begin.h"

#include <inttypes.h>
#include <unistd.h>

#include "report/write.h"
#include "shoal.h"

void report_put_begin(struct json *j, const struct report_begin *b)
{
	char host[256] = "", time[REPORT_TIME_BYTES];

	(void)gethostname(host, sizeof(host) - 1);
	report_time(b->started, time);
	json_string(j, "command", b->command);
	json_string(j, "version", shoal_version());
	json_string(j, "started", time);
	json_string(j, "hostname", host);
	json_u64(j, "ranks", b->ranks);
	json_u64(j, "cores", b->cores);
}

static void put_begin_of_run(struct json *j, const void *self)
{
	const struct run_result *r = self;

	report_put_begin(j, &(struct report_begin){ .command = "run",
						    .started = r->started,
						    .ranks = r->nr_ranks,
						    .cores = r->cores });
	json_string(j, "workload", r->workload->name);
	json_u64(j, "accelerators", r->nr_accelerators);
	json_u64(j, "epochs", r->workload->train.epochs);
	json_real(j, "au_bar_percentage", r->workload->au * 100.0, 12);
	json_string(j, "data", r->data ? r->data : "");
	json_string(j, "catalog", r->catalog);
	json_string(j, "digest", r->digest);
	json_u64(j, "files", r->nr_files);
	json_bool(j, "bytes_made_up", r->synthetic);
	json_bool(j, "direct", r->direct);
	json_bool(j, "page_cache_dropped_before_each_epoch", r->drop_cache);
	json_u64(j, "read_threads_per_accelerator", r->read_threads);
	json_u64(j, "in_flight_per_rank", r->in_flight);
	json_u64(j, "prefetch_batches", r->prefetch);
	json_string(j, "order", r->order);
	json_format(j, "seed", "%" PRIu64, r->seed); /* a string: it may exceed 2^53 */
	json_u64(j, "resumed", r->resumed);
}

int report_begin_text(const struct run_result *r, char **ret_text, struct shoal_err *err)
{
	return report_text(put_begin_of_run, r, (struct json){ .lines = 1 }, ret_text, err);
}
