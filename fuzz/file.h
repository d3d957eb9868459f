/* file.h - bytes as a file, for parsers that read files. */
#ifndef SHOAL_FUZZ_FILE_H
#define SHOAL_FUZZ_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Write the bytes to the file, which is made or emptied. Aborts if that cannot be done. */
static inline void fuzz_write(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) < 0)
		abort();
}

/* A name in memory that no other process uses. */
static inline const char *fuzz_path(const char *what)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/shm/shoal-fuzz-%s-%d", what, (int)getpid());
	return path;
}

#endif
