/*
 * shifted_clock.c - loaded by LD_PRELOAD: the time of day is CLOCK_SHIFT seconds ahead, as on a
 * host whose clock is wrong. Times of files remain those of the file server.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void)
{
	const char *said = getenv("CLOCK_SHIFT");

	return said ? atol(said) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	static int (*real)(clockid_t clock, struct timespec * ret_now);
	int rc;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(clock, ret_now);
	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ret_now->tv_sec += shift();
	return rc;
}

time_t time(time_t *ret_now)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_now)
		*ret_now = now.tv_sec;
	return now.tv_sec;
}
