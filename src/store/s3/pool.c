#include "store/s3/pool.h"

#include <pthread.h>
#include <stdlib.h>

/* More threads than this open and close a connection per call. */
#define KEPT 256u

struct s3_pool {
	const struct s3_config *config;
	pthread_mutex_t lock; /* protects everything below */
	struct s3_client *idle[KEPT];
	unsigned nr_idle;
	struct s3_stats gone; /* of clients that were not kept */
};

struct s3_pool *s3_pool_new(const struct s3_config *config)
{
	struct s3_pool *p = calloc(1, sizeof(*p));

	if (p) {
		p->config = config;
		pthread_mutex_init(&p->lock, NULL);
	}
	return p;
}

struct s3_pool *s3_pool_free(struct s3_pool *p)
{
	if (!p)
		return NULL;
	for (unsigned i = 0; i < p->nr_idle; i++)
		s3_client_free(p->idle[i]);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

/* The client that was returned last: its connections are the most recent. */
int s3_pool_take(struct s3_pool *p, struct s3_client **ret_client, struct shoal_err *err)
{
	struct s3_client *c = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->nr_idle > 0)
		c = p->idle[--p->nr_idle];
	pthread_mutex_unlock(&p->lock);
	if (!c)
		return s3_client_new(p->config, 1, ret_client, err);
	*ret_client = c;
	return 0;
}

void s3_pool_give(struct s3_pool *p, struct s3_client *client)
{
	pthread_mutex_lock(&p->lock);
	if (p->nr_idle < KEPT) {
		p->idle[p->nr_idle++] = client;
		client = NULL;
	} else {
		s3_stats_add(&p->gone, s3_client_stats(client));
	}
	pthread_mutex_unlock(&p->lock);
	s3_client_free(client);
}

void s3_pool_stats(struct s3_pool *p, struct s3_stats *ret_stats)
{
	pthread_mutex_lock(&p->lock);
	*ret_stats = p->gone;
	for (unsigned i = 0; i < p->nr_idle; i++)
		s3_stats_add(ret_stats, s3_client_stats(p->idle[i]));
	pthread_mutex_unlock(&p->lock);
}
