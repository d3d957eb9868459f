/*
 * screen.h - standard error: messages, and what progress draws there in place.
 *
 * A message takes what is drawn off the terminal first, so that neither is glued to the other and
 * none erases the other. Any thread may call these.
 */
#ifndef SHOAL_CLI_SCREEN_H
#define SHOAL_CLI_SCREEN_H

#include <stddef.h>

/* Lines, separated by '\n', instead of those drawn before. */
void screen_draw(const char *lines);

/* Remove them, to print something else. */
void screen_clear(void);

/* Print @text, which ends in '\n', in one call. On a terminal it is folded, in place. */
void screen_print(char *text);

#endif
