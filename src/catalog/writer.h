/* writer.h - what the index room needs of the writer beyond shoal.h. */
#ifndef SHOAL_CATALOG_WRITER_H
#define SHOAL_CATALOG_WRITER_H

#include "catalog/grid.h"
#include "shoal.h"

/*
 * Add a grid of names without listing them: @g, whose first name is @first, has as many names as
 * the product of its extents, in rising order. All have the same size and number of samples.
 * -ECANCELED once *@stop (which may be NULL) is not 0.
 */
int shoal_writer_add_grid(struct shoal_writer *w, const struct cat_grid *g, const char *first,
			  size_t len, uint64_t size, uint64_t samples, const int *stop,
			  struct shoal_err *err) SHOAL_MUST_USE;

#endif
