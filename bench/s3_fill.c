/*
 * s3_fill: make a bucket and put objects into it, for tests and benchmarks.
 *
 *	s3_fill BUCKET PREFIX COUNT SIZE [FIRST]
 *
 * Objects are called PREFIX and seven digits and ".bin", from FIRST (0) on, and have SIZE bytes.
 *The server is found as always: AWS_ENDPOINT_URL and company.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3/client.h"

#define IN_FLIGHT 24u

struct put {
	struct s3_request request;
	struct shoal_err err;
	char key[256];
	struct fill *fill;
};

struct fill {
	struct s3_client *client;
	const char *prefix;
	uint64_t next, end;
	void *body;
	size_t size;
	int rc;
};

static void done(struct s3_request *r);

static void start(struct put *p)
{
	struct fill *f = p->fill;
	int len;

	if (f->next == f->end || f->rc < 0)
		return;
	len = snprintf(p->key, sizeof(p->key), "%s%07llu.bin", f->prefix,
		       (unsigned long long)f->next++);
	p->request = (struct s3_request){ .method = S3_PUT,
					  .key = p->key,
					  .key_len = (size_t)len,
					  .body = f->body,
					  .body_len = f->size,
					  .done = done,
					  .self = p,
					  .err = &p->err };
	s3_client_submit(f->client, &p->request);
}

static void done(struct s3_request *r)
{
	struct put *p = r->self;

	if (r->rc < 0 && p->fill->rc == 0) {
		p->fill->rc = r->rc;
		fprintf(stderr, "s3_fill: %s\n", p->err.msg);
	}
	start(p);
}

static int fill(struct fill *f, struct shoal_err *err)
{
	static struct put put[IN_FLIGHT];
	int rc = 0;

	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		put[i].fill = f;
		start(&put[i]);
	}
	while (rc == 0 && s3_client_pending(f->client) > 0)
		rc = s3_client_run(f->client, 1000, err);
	return rc < 0 ? rc : f->rc;
}

int main(int argc, char **argv)
{
	struct shoal_err err = { "" };
	struct s3_config *config = NULL;
	struct fill f = { 0 };
	struct s3_request bucket = { .method = S3_PUT, .err = &err };
	int rc;

	if (argc < 5) {
		fprintf(stderr, "usage: s3_fill BUCKET PREFIX COUNT SIZE [FIRST]\n");
		return 2;
	}
	f.prefix = argv[2];
	f.next = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
	f.end = f.next + strtoull(argv[3], NULL, 10);
	f.size = strtoull(argv[4], NULL, 10);
	f.body = malloc(f.size + 1);
	if (!f.body || strlen(f.prefix) > 200)
		return 1;
	for (size_t i = 0; i < f.size; i++)
		((uint8_t *)f.body)[i] = (uint8_t)(i * 2654435761u >> 13);
	rc = s3_config_new(argv[1], NULL, &config, &err);
	if (rc == 0)
		rc = s3_client_new(config, IN_FLIGHT, &f.client, &err);
	if (rc == 0)
		rc = s3_client_do(f.client, &bucket, NULL);
	if (rc < 0 && strcmp(bucket.code, "BucketAlreadyOwnedByYou") == 0)
		rc = 0;
	if (rc == 0)
		rc = fill(&f, &err);
	if (rc < 0 && *err.msg)
		fprintf(stderr, "s3_fill: %s\n", err.msg);
	s3_client_free(f.client);
	s3_config_free(config);
	free(f.body);
	return rc < 0;
}
