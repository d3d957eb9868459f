#include "run/series.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/histogram.h"
#include "base/le.h"
#include "base/map.h"
#include "base/out.h"
#include "base/publish.h"
#include "load/loader.h"

#define INTERVAL_NS UINT64_C(1000000000)
#define NS_PER_US   1000u

static const uint8_t magic[8] = { 0x89, 'S', 'H', 'S', 'E', 'R', '\r', '\n' };

/* For one kind: its interval is 2^level base intervals, or steps. */
struct level {
	unsigned level, nr; /* records since the last doubling */
};

struct series {
	int fd, rc;   /* rc: the first error, after which nothing is written; it is still watched */
	uint64_t end; /* of the file */
	uint64_t origin; /* clock_now() of time 0 */
	struct level seconds, steps, listed;
	struct series_record second, step, list; /* being filled */
	bool within;                             /* an epoch */
	uint64_t paused;                         /* where the last epoch ended */
	const struct shoal_loader *loader;
	const struct shoal_catalog *cat;
	uint64_t cpu, requests, retries, throttled; /* at the last record */
	uint64_t names, bytes;                      /* of a listing, at its last record */
	uint64_t listed_names, listed_bytes;        /* up to now */
	struct histogram seen;                      /* of this epoch, at the last record */
	/* For who watches: what was done since the last call. */
	series_watch_fn *watch; /* NULL: nobody */
	void *watch_self;
	uint64_t watch_interval;
	struct series_record watched;
	uint64_t watched_cpu;
	uint64_t watched_from, watched_names, watched_bytes; /* of a listing */
	uint64_t counted, counted_bytes;                     /* of a job without steps */
	size_t fill;
	uint8_t buf[16384]; /* records to be appended by one write */
};

/* ---- Latencies ---- */

unsigned series_place(uint64_t ns)
{
	unsigned top, place;

	if (ns <= NS_PER_US)
		return 0;
	top = 63u - (unsigned)__builtin_clzll((ns - 1) / NS_PER_US);
	/* Above 2^top us, up to twice that: above its middle, 2^(top+1/2), or not. */
	place = 2 * top + 1 + ((double)ns > 1414.2135623730951 * (double)(UINT64_C(1) << top));
	return place < SERIES_PLACES ? place : SERIES_PLACES - 1;
}

/* ---- Records as bytes ---- */

static const size_t fields[] = {
	offsetof(struct series_record, start),       offsetof(struct series_record, duration),
	offsetof(struct series_record, first_step),  offsetof(struct series_record, nr_steps),
	offsetof(struct series_record, samples),     offsetof(struct series_record, bytes),
	offsetof(struct series_record, load),        offsetof(struct series_record, load_max),
	offsetof(struct series_record, compute),     offsetof(struct series_record, errors),
	offsetof(struct series_record, latency),     offsetof(struct series_record, cpu),
	offsetof(struct series_record, memory),      offsetof(struct series_record, requests),
	offsetof(struct series_record, retries),     offsetof(struct series_record, throttled),
	offsetof(struct series_record, slow),        offsetof(struct series_record, slow_start),
	offsetof(struct series_record, slow_sample),
};

static const size_t listed_fields[] = {
	offsetof(struct series_record, start),
	offsetof(struct series_record, duration),
	offsetof(struct series_record, names),
	offsetof(struct series_record, bytes),
};

#define STEP_FIELDS 9u /* the first of them */

/* The fields of a kind; none if this version does not know it. */
static size_t fields_of(uint32_t kind, const size_t **ret_fields)
{
	*ret_fields = kind == SERIES_LISTED ? listed_fields : fields;
	return kind == SERIES_SECOND   ? ARRAY_LEN(fields)
	       : kind == SERIES_STEPS  ? STEP_FIELDS
	       : kind == SERIES_LISTED ? ARRAY_LEN(listed_fields)
				       : 0;
}

/* Kind and length, epoch, fields; for seconds counts and name; then the checksum. */
size_t series_pack(const struct series_record *r, uint8_t to[SERIES_BYTES])
{
	const size_t *field;
	size_t nr = fields_of(r->kind, &field), at = 16, len;

	le64_store(to + 8, r->epoch | (uint64_t)r->eval << 32);
	for (size_t i = 0; i < nr; i++, at += 8)
		le64_store(to + at, *(const uint64_t *)(const void *)((const char *)r + field[i]));
	if (r->kind == SERIES_SECOND) {
		for (size_t i = 0; i < SERIES_PLACES; i += 2, at += 8)
			le64_store(to + at, r->count[i] | (uint64_t)r->count[i + 1] << 32);
		len = strlen(r->name);
		memset(to + at, 0, 256);
		memcpy(to + at, r->name, len);
		at += (len + 8) / 8 * 8; /* ends with a NUL */
	}
	le64_store(to, r->kind | (uint64_t)(at + 8) << 32);
	le64_store(to + at, XXH3_64bits(to, at));
	return at + 8;
}

int series_unpack(const uint8_t *from, size_t len, struct series_record *r)
{
	uint32_t kind = len < 24 ? 0 : le32_load(from);
	const size_t *field;
	size_t nr = fields_of(kind, &field), at = 16, room;

	if (nr == 0 || len < 24 + 8 * nr)
		return 0;
	*r = (struct series_record){ .kind = (enum series_kind)kind,
				     .epoch = le32_load(from + 8),
				     .eval = (from[12] & 1) != 0 };
	for (size_t i = 0; i < nr; i++, at += 8)
		*(uint64_t *)(void *)((char *)r + field[i]) = le64_load(from + at);
	if (kind != SERIES_SECOND)
		return 1;
	if (len < at + sizeof(uint32_t) * SERIES_PLACES + 16)
		return 0;
	for (size_t i = 0; i < SERIES_PLACES; i++, at += 4)
		r->count[i] = le32_load(from + at);
	room = len - 8 - at;
	memcpy(r->name, from + at, room < SERIES_NAME_MAX ? room : SERIES_NAME_MAX);
	return 1;
}

/* ---- Reading ---- */

static int series_read_head(const uint8_t *data, size_t len, struct series_head *ret_head,
			    struct shoal_err *err)
{
	if (len < SERIES_HEAD || memcmp(data, magic, sizeof(magic)) != 0)
		return err_set(err, -EBADMSG, "it is not a time series");
	if (le32_load(data + 8) != SERIES_VERSION)
		return err_set(err, -EPROTONOSUPPORT,
			       "the time series is of version %" PRIu32
			       ", and this program reads version %u",
			       le32_load(data + 8), SERIES_VERSION);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (le64_load(data + SERIES_HEAD - 8) != XXH3_64bits(data, SERIES_HEAD - 8))
		return err_set(err, -EBADMSG, "the head of the time series is damaged");
#endif
	*ret_head = (struct series_head){ .run = le64_load(data + 16),
					  .started = le64_load(data + 24),
					  .interval_ns = le64_load(data + 32),
					  .rank = le32_load(data + 40),
					  .nr_ranks = le32_load(data + 44),
					  .nr_accelerators = le32_load(data + 48) };
	return 0;
}

static bool series_is_whole(const uint8_t *at, size_t left, size_t *ret_len)
{
	size_t len;

	if (left < 24)
		return false;
	len = *ret_len = le32_load(at + 4);
	if (len < 24 || len > left || len % 8 != 0)
		return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	return true;
#else
	return le64_load(at + len - 8) == XXH3_64bits(at, len - 8);
#endif
}

int series_read(const uint8_t *data, size_t len, struct series_head *ret_head, series_each_fn *each,
		void *self, size_t *ret_end, struct shoal_err *err)
{
	struct series_record r;
	size_t at = SERIES_HEAD, one;
	int rc = series_read_head(data, len, ret_head, err);

	while (rc == 0 && series_is_whole(data + at, len - at, &one)) {
		if (series_unpack(data + at, one, &r))
			rc = each(self, &r);
		at += one;
	}
	*ret_end = at;
	return rc;
}

/* ---- Appending ---- */

static void flush_series(struct series *s)
{
	if (s->rc == 0 && s->fill > 0 && s->fd >= 0)
		s->rc = pwrite_all(s->fd, s->buf, s->fill, s->end);
	s->end += s->fill;
	s->fill = 0;
}

static void append(struct series *s, const struct series_record *r, struct level *l)
{
	if (sizeof(s->buf) - s->fill < SERIES_BYTES)
		flush_series(s);
	s->fill += series_pack(r, s->buf + s->fill);
	if (++l->nr == SERIES_LEVEL && l->level < 62) {
		l->level++;
		l->nr = 0;
	}
}

static uint64_t width_of(const struct level *l)
{
	return UINT64_C(1) << l->level;
}

/* Start a record that follows @r. */
static struct series_record after(const struct series_record *r, uint64_t now)
{
	return (struct series_record){ .kind = r->kind,
				       .epoch = r->epoch,
				       .eval = r->eval,
				       .start = now,
				       .first_step = r->first_step + r->nr_steps };
}

static uint64_t cpu_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

/* The middle of a place of base/histogram.h, whose places begin at 16 times a power of two. */
static uint64_t middle_of(uint32_t place)
{
	uint32_t top = place < 2 * HISTOGRAM_STEPS ? 0 : place / HISTOGRAM_STEPS - 1;
	uint64_t low = (uint64_t)(place - top * HISTOGRAM_STEPS) << top;

	return low + ((UINT64_C(1) << top) >> 1);
}

static void add_second(struct series_record *to, const struct series_record *r)
{
	to->nr_steps += r->nr_steps;
	to->samples += r->samples;
	to->bytes += r->bytes;
	to->load += r->load;
	to->compute += r->compute;
	to->errors += r->errors;
	to->latency += r->latency;
	to->cpu += r->cpu;
	to->requests += r->requests;
	to->retries += r->retries;
	to->throttled += r->throttled;
	for (size_t i = 0; i < SERIES_PLACES; i++)
		to->count[i] += r->count[i];
}

/* Add what the loader has done since the last time. */
static void take_loader(struct series *s)
{
	struct series_record r = { .kind = SERIES_SECOND };
	struct histogram now;
	struct load_remote remote = { 0 };

	if (!s->loader)
		return;
	load_latency(s->loader, &now);
	for (uint32_t i = 0; i < HISTOGRAM_PLACES; i++) {
		uint64_t nr = now.count[i] - s->seen.count[i];

		if (nr == 0)
			continue;
		r.count[series_place(middle_of(i))] += (uint32_t)nr;
		r.latency += nr * middle_of(i);
	}
	s->seen = now;
	if (load_remote(s->loader, &remote)) {
		r.requests = remote.nr_requests - s->requests;
		r.retries = remote.nr_retries - s->retries;
		r.throttled = remote.nr_throttled - s->throttled;
		s->requests = remote.nr_requests;
		s->retries = remote.nr_retries;
		s->throttled = remote.nr_throttled;
	}
	add_second(&s->second, &r);
	if (s->watch)
		add_second(&s->watched, &r);
}

/* The name of the slowest sample's file, of a long one its end; unless it is known already. */
static void name_slowest(const struct series *s, struct series_record *r)
{
	char name[SHOAL_NAME_MAX + 1] = "";
	uint64_t file, index;
	size_t len;

	if (!s->cat || r->slow == 0 || r->name[0] ||
	    shoal_catalog_locate(s->cat, r->slow_sample, &file, &index) < 0 ||
	    shoal_catalog_name(s->cat, file, name) <= 0)
		return;
	len = strlen(name);
	snprintf(r->name, sizeof(r->name), "%s",
		 name + (len > SERIES_NAME_MAX ? len - SERIES_NAME_MAX : 0));
}

static void end_second(struct series *s, uint64_t at)
{
	struct series_record *r = &s->second;
	uint64_t cpu = cpu_time();

	take_loader(s);
	name_slowest(s, r);
	r->duration = at - r->start;
	r->cpu = cpu - s->cpu;
	r->memory = resident_bytes();
	s->cpu = cpu;
	append(s, r, &s->seconds);
	flush_series(s);
	*r = after(r, at);
}

static void end_steps(struct series *s, uint64_t at)
{
	s->step.duration = at - s->step.start;
	append(s, &s->step, &s->steps);
	s->step = after(&s->step, at);
}

/* Pass on what was done since the last time. */
static void end_watched(struct series *s, uint64_t at)
{
	struct series_record *r = &s->watched;
	uint64_t cpu = cpu_time();

	take_loader(s);
	name_slowest(s, r);
	r->duration = at - r->start;
	r->cpu = cpu - s->watched_cpu;
	r->memory = resident_bytes();
	s->watched_cpu = cpu;
	s->watch(s->watch_self, r);
	*r = after(r, at);
}

void series_watch(struct series *s, uint64_t interval, series_watch_fn *each, void *self)
{
	if (!s)
		return;
	s->watch_interval = interval;
	s->watch = each;
	s->watch_self = self;
	s->watched = (struct series_record){ .kind = SERIES_SECOND };
	s->watched_cpu = cpu_time();
}

/* ---- What happens ---- */

static uint64_t since_origin(const struct series *s, uint64_t now)
{
	/* The origin may be before 0, of a run that began before this machine: then it has wrapped.
	 */
	return (int64_t)(now - s->origin) > 0 ? now - s->origin : 0;
}

void series_epoch(struct series *s, uint64_t now, uint32_t epoch, bool eval, uint64_t first_step,
		  const struct shoal_loader *l, const struct shoal_catalog *cat)
{
	if (!s)
		return;
	now = since_origin(s, now);
	if (!s->within && s->second.nr_steps == 0) { /* the time between belongs to no epoch */
		s->second = (struct series_record){ .kind = SERIES_SECOND, .start = now };
		s->cpu = cpu_time();
	}
	s->within = true;
	s->loader = l;
	s->cat = cat;
	memset(&s->seen, 0, sizeof(s->seen));
	s->requests = s->retries = s->throttled = 0;
	if (s->second.nr_steps == 0) {
		s->second.epoch = epoch;
		s->second.eval = eval;
		s->second.first_step = first_step;
	}
	if (s->watch && s->watched.nr_steps == 0) {
		s->watched = (struct series_record){ .kind = SERIES_SECOND,
						     .epoch = epoch,
						     .eval = eval,
						     .start = now,
						     .first_step = first_step };
		s->watched_cpu = cpu_time();
	}
	s->step = (struct series_record){ .kind = SERIES_STEPS,
					  .epoch = epoch,
					  .eval = eval,
					  .start = now,
					  .first_step = first_step };
}

void series_pause(struct series *s, uint64_t now)
{
	uint64_t at;

	if (!s || !s->within)
		return;
	at = u64_max(since_origin(s, now), u64_max(s->second.start, s->step.start));
	/*
	 * At first a record ends with its epoch; later only if it has half its length, so that many
	 * short epochs do not make the file grow.
	 */
	if (s->step.nr_steps > 0 &&
	    (!s->steps.level || 2 * s->step.nr_steps >= width_of(&s->steps)))
		end_steps(s, at);
	if (!s->seconds.level ||
	    2 * (at - s->second.start) >= INTERVAL_NS * width_of(&s->seconds)) {
		end_second(s, at);
	} else { /* it continues in the next epoch, which may have another loader and catalog */
		take_loader(s);
		name_slowest(s, &s->second);
	}
	if (s->watch && at > s->watched.start)
		end_watched(s, at);
	s->paused = at;
	s->within = false;
	s->loader = NULL;
	s->cat = NULL;
}

static void add_step(struct series_record *r, const struct series_step *step)
{
	r->nr_steps++;
	r->samples += step->samples;
	r->bytes += step->bytes;
	r->load += step->load;
	r->load_max = u64_max(r->load_max, step->load_max);
	r->compute += step->compute;
	r->errors += step->errors;
}

void series_step(struct series *s, const struct series_step *step)
{
	uint64_t at;

	if (!s)
		return;
	at = since_origin(s, step->now);
	add_step(&s->second, step);
	add_step(&s->step, step);
	if (s->step.nr_steps >= width_of(&s->steps))
		end_steps(s, at);
	if (at - s->second.start >= INTERVAL_NS * width_of(&s->seconds))
		end_second(s, at);
	if (!s->watch)
		return;
	add_step(&s->watched, step);
	if (at - s->watched.start >= s->watch_interval)
		end_watched(s, at);
}

void series_count(struct series *s, uint64_t now, uint64_t samples, uint64_t bytes)
{
	struct series_step part = { .now = now };
	uint64_t at;

	if (!s)
		return;
	at = since_origin(s, now);
	part.samples = samples - u64_min(samples, s->counted);
	part.bytes = bytes - u64_min(bytes, s->counted_bytes);
	s->counted = samples;
	s->counted_bytes = bytes;
	s->second.samples += part.samples;
	s->second.bytes += part.bytes;
	if (at - s->second.start >= INTERVAL_NS * width_of(&s->seconds))
		end_second(s, at);
	if (!s->watch)
		return;
	s->watched.samples += part.samples;
	s->watched.bytes += part.bytes;
	if (at - s->watched.start >= s->watch_interval)
		end_watched(s, at);
}

void series_sample(struct series *s, uint64_t started, uint64_t took, uint64_t id)
{
	if (!s)
		return;
	if (s->watch && took > s->watched.slow) {
		s->watched.name[0] = '\0';
		s->watched.slow = took;
		s->watched.slow_start = since_origin(s, started);
		s->watched.slow_sample = id;
	}
	if (took <= s->second.slow)
		return;
	s->second.name[0] = '\0';
	s->second.slow = took;
	s->second.slow_start = since_origin(s, started);
	s->second.slow_sample = id;
}

static void end_listed(struct series *s, uint64_t at)
{
	struct series_record *r = &s->list;

	r->duration = at - r->start;
	r->names = s->listed_names - s->names;
	r->bytes = s->listed_bytes - u64_min(s->listed_bytes, s->bytes);
	s->names = s->listed_names;
	s->bytes = s->listed_bytes;
	append(s, r, &s->listed);
	flush_series(s);
	*r = after(r, at);
}

static void watch_listed(struct series *s, uint64_t at, uint64_t names, uint64_t bytes)
{
	struct series_record r = { .kind = SERIES_LISTED, .start = s->watched_from };

	if (names < s->watched_names || s->list.kind == 0) { /* another listing */
		s->watched_names = s->watched_bytes = 0;
		s->watched_from = r.start = at;
	}
	if (at - r.start < s->watch_interval)
		return;
	r.duration = at - r.start;
	r.names = names - s->watched_names;
	r.bytes = bytes - u64_min(bytes, s->watched_bytes);
	s->watched_from = at;
	s->watched_names = names;
	s->watched_bytes = bytes;
	s->watch(s->watch_self, &r);
}

void series_listed(struct series *s, uint64_t now, uint64_t names, uint64_t bytes)
{
	struct series_record *r;
	uint64_t at;

	if (!s)
		return;
	r = &s->list;
	at = since_origin(s, now);
	s->listed_names = names;
	s->listed_bytes = bytes;
	if (s->watch)
		watch_listed(s, at, names, bytes);
	if (names < s->names || r->kind == 0) { /* another listing */
		s->names = s->bytes = 0;
		r->start = at;
	}
	r->kind = SERIES_LISTED;
	if (at - r->start >= INTERVAL_NS * width_of(&s->listed))
		end_listed(s, at);
}

/* ---- Opening and closing ---- */

static int series_open_file(const char *path, bool create, struct shoal_err *err)
{
	int fd;

	if (!create)
		return publish_open_own(path, O_RDWR, err);
	(void)!unlink(path); /* of a run that is not resumed; a link there is not followed */
	fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
	return fd < 0 ? err_set_errno(err, err_errno(), "cannot open '%s'", path) : fd;
}

static struct series *new_series(const char *path, bool create, int *ret_rc, struct shoal_err *err)
{
	struct series *s = calloc(1, sizeof(*s)); /* 27 KB per process */

	if (!s) {
		*ret_rc = err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	s->fd = path ? series_open_file(path, create, err) : -1;
	if (path && s->fd < 0) {
		*ret_rc = s->fd;
		free(s);
		return NULL;
	}
	s->second.kind = SERIES_SECOND;
	s->cpu = cpu_time();
	return s;
}

int series_create(const char *path, const struct series_head *head, struct series **ret_s,
		  struct shoal_err *err)
{
	uint8_t bytes[SERIES_HEAD] = { 0 };
	struct series *s;
	int rc = 0;

	s = new_series(path, true, &rc, err);
	if (!s)
		return rc;
	memcpy(bytes, magic, sizeof(magic));
	le64_store(bytes + 8, SERIES_VERSION | (uint64_t)SERIES_HEAD << 32);
	le64_store(bytes + 16, head->run);
	le64_store(bytes + 24, head->started);
	le64_store(bytes + 32, INTERVAL_NS);
	le64_store(bytes + 40, head->rank | (uint64_t)head->nr_ranks << 32);
	le64_store(bytes + 48, head->nr_accelerators);
	le64_store(bytes + SERIES_HEAD - 8, XXH3_64bits(bytes, SERIES_HEAD - 8));
	memcpy(s->buf, bytes, sizeof(bytes));
	s->fill = sizeof(bytes);
	s->origin = clock_now() - (clock_wall() - head->started);
	flush_series(s);
	if (s->rc < 0) {
		rc = err_set_errno(err, s->rc, "cannot write '%s'", path);
		close(s->fd);
		free(s);
		return rc;
	}
	*ret_s = s;
	return 0;
}

static int count_record(void *self, const struct series_record *r)
{
	struct series *s = self;
	struct level *l = r->kind == SERIES_SECOND  ? &s->seconds
			  : r->kind == SERIES_STEPS ? &s->steps
						    : &s->listed;

	if (++l->nr == SERIES_LEVEL && l->level < 62) {
		l->level++;
		l->nr = 0;
	}
	return 0;
}

int series_resume(const char *path, uint64_t run, struct series **ret_s, struct shoal_err *err)
{
	struct series_head head = { 0 };
	struct map m = MAP_CLOSED;
	struct shoal_err why = { "" };
	size_t end = 0;
	int rc = 0, fd;
	struct series *s = new_series(path, false, &rc, err);

	if (!s)
		return rc;
	fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
	rc = fd < 0 ? err_set_errno(err, err_errno(), "cannot read '%s'", path)
		    : map_open_fd(fd, &m, err);
	if (rc == 0 && m.len < SERIES_HEAD)
		rc = err_set(err, -ENODATA, "'%s' has no records", path);
	if (rc == 0 && series_read(m.addr, m.len, &head, count_record, s, &end, &why) < 0)
		rc = err_set(err, -EBADMSG, "'%s': %s", path, why.msg);
	if (rc == 0 && map_faulted(&m))
		rc = err_set(err, -ESTALE, "'%s' is being truncated", path);
	map_close(&m);
	if (rc == 0 && head.run != run)
		rc = err_set(err, -ESTALE, "'%s' belongs to another run", path);
	if (rc == 0 && ftruncate(s->fd, (off_t)end) < 0)
		rc = err_set_errno(err, err_errno(), "cannot truncate '%s'", path);
	if (rc < 0) {
		close(s->fd);
		free(s);
		return rc;
	}
	s->end = end;
	s->origin = clock_now() - (clock_wall() - head.started);
	*ret_s = s;
	return 0;
}

int series_close(struct series *s, struct shoal_err *err)
{
	int rc;

	if (!s)
		return 0;
	series_pause(s, clock_now());
	if (s->second.nr_steps > 0 || s->second.samples > 0) /* too short for a record until now */
		end_second(s, s->paused);
	if (s->list.kind == SERIES_LISTED && s->listed_names > s->names)
		end_listed(s, u64_max(since_origin(s, clock_now()), s->list.start + 1));
	flush_series(s);
	rc = s->rc < 0 ? err_set_errno(err, s->rc, "cannot write the time series") : 0;
	if (s->fd >= 0)
		close(s->fd);
	free(s);
	return rc;
}
