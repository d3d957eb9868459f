#include "run/steplog.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/out.h"
#include "base/publish.h"

/*
 * The log is a sequence of items of one size: kind, number, and four values. A step is one item per
 * accelerator, in order; its number is the count of unread samples.
 */
#define ITEM_BYTES 40u

enum item_kind {
	ITEM_HEAD = 0x67526853, /* version, accelerators; run */
	ITEM_BLOCK = 0x6b6c4253,
	ITEM_STEP = 0x70745353,
	ITEM_END = 0x646e4553,
};

#define VERSION 2u

struct item {
	uint32_t kind, number;
	uint64_t value[4];
};

static void log_pack(uint8_t *at, const struct item *item)
{
	le64_store(at, item->kind | (uint64_t)item->number << 32);
	for (size_t i = 0; i < 4; i++)
		le64_store(at + 8 + 8 * i, item->value[i]);
}

static struct item log_unpack(const uint8_t *at)
{
	struct item item = { .kind = le32_load(at), .number = le32_load(at + 4) };

	for (size_t i = 0; i < 4; i++)
		item.value[i] = le64_load(at + 8 + 8 * i);
	return item;
}

static int log_put(struct step_log *log, const void *data, size_t len, struct shoal_err *err)
{
	int rc = pwrite_all(log->fd, data, len, log->end);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot write the record of steps");
	log->end += len;
	return 0;
}

static int put_item(struct step_log *log, const struct item *item, struct shoal_err *err)
{
	uint8_t bytes[ITEM_BYTES];

	log_pack(bytes, item);
	return log_put(log, bytes, sizeof(bytes), err);
}

static int get_item(const struct step_log *log, uint64_t off, struct item *ret_item,
		    struct shoal_err *err)
{
	uint8_t bytes[ITEM_BYTES];
	int rc = pread_all(log->fd, bytes, sizeof(bytes), off);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot read the record of steps");
	*ret_item = log_unpack(bytes);
	return 0;
}

/* ---- Opening ---- */

static int open_file(const char *path, bool create, uint32_t nr, struct step_log *log,
		     struct shoal_err *err)
{
	*log = STEP_LOG_CLOSED;
	log->nr_accelerators = nr;
	log->step = malloc((size_t)nr * ITEM_BYTES); /* one step of this process' accelerators */
	if (!log->step)
		return err_set(err, -ENOMEM, "out of memory");
	log->fd = create ? open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0666)
			 : publish_open_own(path, O_RDWR, err);
	if (log->fd < 0 && create)
		return err_set_errno(err, err_errno(), "cannot open '%s'", path);
	return log->fd < 0 ? log->fd : 0;
}

int step_log_create(const char *path, uint64_t run, uint32_t nr_accelerators,
		    struct step_log *ret_log, struct shoal_err *err)
{
	struct item head = { .kind = ITEM_HEAD,
			     .number = VERSION,
			     .value = { run, nr_accelerators } };
	int rc;

	(void)!unlink(path); /* for a run that is not resumed; a link there is not followed */
	rc = open_file(path, true, nr_accelerators, ret_log, err);

	if (rc == 0)
		rc = put_item(ret_log, &head, err);
	if (rc < 0)
		step_log_close(ret_log);
	return rc;
}

int step_log_open(const char *path, uint64_t run, uint32_t nr_accelerators,
		  struct step_log *ret_log, struct shoal_err *err)
{
	struct item head = { 0 };
	struct stat st;
	int rc = open_file(path, false, nr_accelerators, ret_log, err);

	if (rc == 0 && fstat(ret_log->fd, &st) < 0)
		rc = err_set_errno(err, err_errno(), "cannot stat '%s'", path);
	if (rc == 0) {
		ret_log->end = (uint64_t)st.st_size / ITEM_BYTES * ITEM_BYTES;
		rc = ret_log->end ? get_item(ret_log, 0, &head, err) : 0;
	}
	if (rc == 0 && (head.kind != ITEM_HEAD || head.number != VERSION || head.value[0] != run ||
			head.value[1] != nr_accelerators))
		rc = err_set(err, -ESTALE, "'%s' belongs to another run", path);
	if (rc < 0)
		step_log_close(ret_log);
	return rc;
}

void step_log_close(struct step_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->step);
	*log = STEP_LOG_CLOSED;
}

/* ---- Writing ---- */

int step_log_start(struct step_log *log, const struct step_log_block *block, struct shoal_err *err)
{
	struct item item = { .kind = ITEM_BLOCK,
			     .number = block->epoch,
			     .value = { (uint64_t)block->eval | block->steps_due << 1,
					block->first_step, block->started } };

	log->block = log->end;
	return put_item(log, &item, err);
}

int step_log_step(struct step_log *log, const struct run_step *steps, struct shoal_err *err)
{
	for (uint32_t i = 0; i < log->nr_accelerators; i++) {
		struct item item = { .kind = ITEM_STEP,
				     .number = (uint32_t)steps[i].errors,
				     .value = { steps[i].asked, steps[i].load, steps[i].compute,
						steps[i].planned } };

		log_pack(log->step + (size_t)i * ITEM_BYTES, &item);
	}
	return log_put(log, log->step, (size_t)log->nr_accelerators * ITEM_BYTES, err);
}

int step_log_end(struct step_log *log, uint64_t nr_steps, uint64_t wall, uint64_t ended,
		 struct shoal_err *err)
{
	struct item item = { .kind = ITEM_END, .value = { wall, nr_steps, ended } };
	uint8_t number[8];
	int rc = put_item(log, &item, err);

	/* Store the number of steps in the block's head, so that readers need not count them. */
	le64_store(number, nr_steps);
	if (rc == 0)
		rc = pwrite_all(log->fd, number, sizeof(number), log->block + ITEM_BYTES - 8);
	return rc < 0 ? err_set_errno(err, rc, "cannot write the record of steps") : 0;
}

int step_log_cut(struct step_log *log, const struct step_log_block *block, uint64_t nr_steps,
		 struct shoal_err *err)
{
	uint64_t end = block->off;

	if (nr_steps > 0)
		end = block->steps_off + nr_steps * log->nr_accelerators * ITEM_BYTES;
	/* A count in the head is wrong after this, and does not match the end of the block. */
	if (ftruncate(log->fd, (off_t)end) < 0)
		return err_set_errno(err, err_errno(), "cannot truncate the record of steps");
	log->end = end;
	log->block = block->off;
	return 0;
}

/* ---- Reading ---- */

/*
 * Call @each for the items from @off to @end, many per read, until it returns a value other than 0.
 */
static int each_item(const struct step_log *log, uint64_t off, uint64_t end,
		     int (*each)(void *self, const struct item *item), void *self,
		     struct shoal_err *err)
{
	uint8_t bytes[ITEM_BYTES * 256];
	int rc = 0;

	while (rc == 0 && off < end) {
		size_t len = (size_t)u64_min(sizeof(bytes), end - off);

		rc = pread_all(log->fd, bytes, len, off);
		if (rc < 0)
			return err_set_errno(err, rc, "cannot read the record of steps");
		for (size_t at = 0; rc == 0 && at < len; at += ITEM_BYTES) {
			struct item item = log_unpack(bytes + at);

			rc = each(self, &item);
		}
		off += len;
	}
	return rc;
}

struct counting {
	uint64_t nr_items, last;
	struct item end;
};

/* Counts steps until another kind of item comes; keeps the end time of the last step. */
static int count_step(void *self, const struct item *item)
{
	struct counting *c = self;

	if (item->kind != ITEM_STEP) {
		c->end = *item;
		return 1;
	}
	c->nr_items++;
	c->last = u64_max(c->last, item->value[0] + item->value[1] + item->value[2]);
	return 0;
}

/* Take the number from the head of a block with an end, or count one by one. */
static int log_count_steps(const struct step_log *log, const struct step_log_block *block,
			   uint64_t nr_steps, struct counting *c, struct shoal_err *err)
{
	uint64_t nr = nr_steps * log->nr_accelerators;
	uint64_t end = block->steps_off + nr * ITEM_BYTES;

	if (nr_steps > 0 && nr_steps < log->end && end + ITEM_BYTES <= log->end) {
		int rc = get_item(log, end, &c->end, err);

		c->nr_items = nr;
		if (rc < 0 || c->end.kind == ITEM_END)
			return rc;
		*c = (struct counting){ 0 };
	}
	return each_item(log, block->steps_off, log->end, count_step, c, err);
}

int step_log_next(const struct step_log *log, struct step_log_block *block, struct shoal_err *err)
{
	uint64_t off = block->next_off ? block->next_off : ITEM_BYTES;
	struct counting counting = { 0 };
	struct item head;
	int rc;

	if (off >= log->end)
		return 0;
	rc = get_item(log, off, &head, err);
	if (rc < 0)
		return rc;
	if (head.kind != ITEM_BLOCK)
		return err_set(err, -EBADMSG, "the record of steps is damaged");
	*block = (struct step_log_block){ .epoch = head.number,
					  .eval = (head.value[0] & 1) != 0,
					  .steps_due = head.value[0] >> 1,
					  .first_step = head.value[1],
					  .started = head.value[2],
					  .off = off,
					  .steps_off = off + ITEM_BYTES };
	rc = log_count_steps(log, block, head.value[3], &counting, err);
	if (rc < 0)
		return rc;
	block->nr_steps = counting.nr_items / log->nr_accelerators;
	block->wall = counting.last;
	block->ended = block->started + block->wall;
	block->next_off = block->steps_off + counting.nr_items * ITEM_BYTES;
	block->whole = counting.end.kind == ITEM_END;
	if (block->whole) {
		block->wall = counting.end.value[0];
		block->ended = counting.end.value[2];
		block->next_off += ITEM_BYTES;
	}
	return 1;
}

struct step_window step_log_window(const struct step_log_block *block, struct step_window window)
{
	if (block->first_step + block->nr_steps < block->steps_due)
		window.exclude_end = 0;
	return window;
}

static struct run_step step_of(const struct item *item)
{
	return (struct run_step){ .asked = item->value[0],
				  .load = item->value[1],
				  .compute = item->value[2],
				  .planned = item->value[3],
				  .errors = item->number };
}

struct picking {
	uint32_t accelerator, nr;
	step_log_each_fn *each;
	void *self;
};

static int pick_step(void *self, const struct item *item)
{
	struct picking *p = self;
	struct run_step step = step_of(item);
	uint32_t accelerator = p->accelerator;

	p->accelerator = (accelerator + 1) % p->nr;
	return p->each(p->self, accelerator, &step);
}

int step_log_read(const struct step_log *log, const struct step_log_block *block,
		  step_log_each_fn *each, void *self, struct shoal_err *err)
{
	struct picking picking = { .nr = log->nr_accelerators, .each = each, .self = self };

	return each_item(log, block->steps_off,
			 block->steps_off + block->nr_steps * log->nr_accelerators * ITEM_BYTES,
			 pick_step, &picking, err);
}

/* ---- One accelerator among many ---- */

int step_log_view_open(const struct step_log *log, struct step_log_view *ret_view,
		       struct shoal_err *err)
{
	int fd = fcntl(log->fd, F_DUPFD_CLOEXEC, 0), rc;

	*ret_view = (struct step_log_view){ .log = log, .map = MAP_CLOSED };
	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot read the record of steps");
	rc = map_open_fd(fd, &ret_view->map, err);
	if (rc == 0 && ret_view->map.len < log->end) {
		map_close(&ret_view->map);
		rc = err_set(err, -ESTALE, "the record of steps is truncated");
	}
	return rc;
}

void step_log_view_close(struct step_log_view *view)
{
	map_close(&view->map);
}

int step_log_view_read(const struct step_log_view *view, const struct step_log_block *block,
		       uint32_t accelerator, step_log_each_fn *each, void *self,
		       struct shoal_err *err)
{
	uint64_t step_bytes = (uint64_t)view->log->nr_accelerators * ITEM_BYTES;
	uint64_t off = block->steps_off + (uint64_t)accelerator * ITEM_BYTES;
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && i < block->nr_steps; i++, off += step_bytes) {
		struct item item = log_unpack(view->map.addr + off);
		struct run_step step = step_of(&item);

		rc = each(self, accelerator, &step);
	}
	if (rc == 0 && map_faulted(&view->map))
		rc = err_set(err, -ESTALE, "the record of steps is truncated");
	return rc;
}
