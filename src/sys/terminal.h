// SPDX-License-Identifier: Apache-2.0
//
// terminal.h -- whether a person is watching; and a screen of our own for one who does.
//
//     terminal_open     keys come one by one and unseen, the alternate screen, no cursor, no wrapping
//     SIGWINCH          `resized`
//     SIGTSTP           all is given back, we stop; on SIGCONT it is taken again, `resized`
//     SIGINT, SIGTERM, SIGQUIT, SIGHUP, or the terminal is gone: `ended`
//     terminal_close    all is given back as it was
//
// A crash (an assertion, a bad address) gives it back too, before the process dies.
//
// The terminal is opened anew, for us alone: it does not block, and who shares our standard output
// does not notice.  A terminal that takes nothing holds nobody up: what it has not taken is kept and
// sent as it can, and until then terminal_is_busy.
//
// Threads: the one of its loop; opened before others start, since signals are blocked.  One at a time.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct loop;
struct terminal;

bool terminal_is(FILE *file);

struct terminal_listener {
    void (*typed)(void *owner, struct slice bytes);
    void (*resized)(void *owner); // or it was someone else's for a while: nothing is known of it
    void (*ended)(void *owner);
    void *owner;
};

struct terminal_size {
    uint32_t width;
    uint32_t height;
};

// The terminal of the standard output.  IO: there is none, or it cannot be opened.  At most `size_max`
// bytes are written at once.
enum status terminal_open(struct loop *loop, const struct terminal_listener *listener,
                          size_t size_max, struct terminal **out);

// Clears the caller's pointer, which may be NULL.
void terminal_close(struct terminal **terminal);

// 80 by 24 where the terminal does not know.
struct terminal_size terminal_size(const struct terminal *terminal);
// Of the standard output; width 0: it is no terminal.
struct terminal_size terminal_size_of_output(void);

// There is something that it has not taken.
bool terminal_is_busy(const struct terminal *terminal);

// Not while it is busy.
void terminal_write(struct terminal *terminal, struct slice bytes);
