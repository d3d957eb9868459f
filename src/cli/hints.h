/* hints.h - what to do about an error of the library, with the command's own options. */
#ifndef SHOAL_CLI_HINTS_H
#define SHOAL_CLI_HINTS_H

#include "base/err.h"

/*
 * The text for @hint in the command @command, or NULL. "{}" in it is replaced by the hint's number.
 */
const char *cli_hint_words(const char *command, enum shoal_hint hint);

/*
 * The message of @err with the text of its hint appended: "what failed: why; what to do". It is
 * stored in @err, which then has no hint. A message that is too long is shortened, not the hint.
 */
const char *cli_words(const char *command, struct shoal_err *err);

#endif
