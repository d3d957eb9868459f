/* Any bytes as a log of operations: what is read can be packed again, and names may be opened. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "load/oplog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see(void *self, const struct oplog_op *op)
{
	static uint8_t record[OPLOG_RECORD];
	uint64_t *nr = self;

	if (!op->name[0] || strlen(op->name) > SHOAL_NAME_MAX ||
	    op->start + op->duration < op->start || op->off + op->len < op->off ||
	    oplog_pack_op(op, record) % 8 != 0)
		abort();
	++*nr;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct oplog_facts facts;
	struct shoal_err err = { "" };
	uint64_t nr = 0;
	int rc = oplog_read(data, size, see, &nr, &facts, &err);

	if (rc == 0 ? nr != facts.nr || !facts.root[0]
		    : (rc != -EBADMSG && rc != -EPROTONOSUPPORT) || !err.msg[0])
		abort();
	return 0;
}
