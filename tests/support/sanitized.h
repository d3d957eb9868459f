/* sanitized.h - whether the build is one with a sanitizer. */
#ifndef SHOAL_TESTS_SANITIZED_H
#define SHOAL_TESTS_SANITIZED_H

#include <stdbool.h>

/* A build in which every access is checked is many times slower, and has memory of its own beside
 * the program's: less is repeated there, and no memory is measured. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#endif
