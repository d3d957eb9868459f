#include "run/watch.h"

/* What this rank's series has. */
static void watch_take(void *self, const struct series_record *r)
{
	struct run_watch *w = self;
	uint8_t bytes[SERIES_BYTES];
	struct shoal_err err;

	if (comm_place(w->comm)->rank == 0)
		w->record(w->self, 0, r);
	else if (!w->failed) /* the next call of the comm says why */
		w->failed = comm_post(w->comm, 0, RUN_WATCH_MAIL, bytes, series_pack(r, bytes),
				      &err) < 0;
}

uint64_t run_watch_interval(uint64_t nr_ranks)
{
	const uint64_t second = UINT64_C(1000000000);

	return u64_max(second, nr_ranks * second / WATCH_PER_SECOND);
}

void run_watch_begin(struct run_watch *w, struct series *s)
{
	if (w->record && s)
		series_watch(s, run_watch_interval((uint64_t)comm_place(w->comm)->size), watch_take,
			     w);
}

bool run_watch_mail(const struct run_watch *w, const struct comm_mail *mail)
{
	struct series_record r;

	if (mail->kind != RUN_WATCH_MAIL)
		return false;
	if (w->record && series_unpack(mail->data, mail->len, &r))
		w->record(w->self, (unsigned)mail->from, &r);
	return true;
}

int run_watch_poll(struct run_watch *w, struct shoal_err *err)
{
	struct comm_mail mail;
	int rc = 0;

	if (!w->record || comm_place(w->comm)->rank > 0 || comm_place(w->comm)->size == 1)
		return 0;
	while ((rc = comm_poll(w->comm, 0, &mail, err)) == 1)
		run_watch_mail(w, &mail);
	return rc;
}
