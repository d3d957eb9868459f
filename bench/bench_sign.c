/* The time of a signature of a GET in a bucket, with the day's key kept, and with a new day for
 * each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/s3/sign.h"

#define ROUNDS 200000u

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double us_each(bool new_day)
{
	struct s3_signer s = { .access_key = "AKIAIOSFODNN7EXAMPLE",
			       .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
			       .region = "us-east-1" };
	const struct s3_header headers[] = { { "host", "examplebucket.s3.amazonaws.com" },
					     { "x-amz-content-sha256", S3_EMPTY_SHA256 },
					     { "x-amz-date", "20130524T000000Z" } };
	char path[64], authorization[S3_AUTHORIZATION];
	struct s3_canonical c = {
		"GET", path, "", headers, 3, S3_EMPTY_SHA256, "20130524T000000Z"
	};
	double start = now();

	for (unsigned i = 0; i < ROUNDS; i++) {
		snprintf(path, sizeof(path), "/train/img_%07u_of_1170301.jpeg", i);
		if (new_day)
			s3_signer_forget(&s);
		s3_sign(&s, &c, authorization);
	}
	return (now() - start) * 1e6 / ROUNDS;
}

int main(void)
{
	printf("{\"kept_us\": %.3f, \"derived_us\": %.3f}\n", us_each(false), us_each(true));
	return 0;
}
