/* For static libraries of Debian, which were compiled where glibc has arc4random_buf() (2.36 and
 * later), in programs that run with older ones: libexpat salts its hash tables with it. */
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void *buf, size_t len);

void arc4random_buf(void *buf, size_t len)
{
	char *to = buf;

	while (len > 0) {
		ssize_t n = getrandom(to, len, 0);

		if (n < 0)
			abort(); /* no kernel that this runs on lacks it */
		to += n;
		len -= (size_t)n;
	}
}
