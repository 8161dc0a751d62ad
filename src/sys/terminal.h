// SPDX-License-Identifier: Apache-2.0
//
// terminal.h -- the full-screen terminal of `top`, and whether standard output is a terminal.
//
//     terminal_open     single keys without echo, the alternate screen, no cursor, no wrapping
//     SIGWINCH          `resized`
//     SIGTSTP           restores the terminal and stops; on SIGCONT takes it again, `resized`
//     SIGINT, SIGTERM, SIGQUIT, SIGHUP, or the terminal is closed: `ended`
//     terminal_close    restores the terminal
//
// A crash (an assertion, a segmentation fault) restores it too, before the process ends.
//
// The terminal is opened a second time, non-blocking, so programs that share our standard output
// are not affected.  A slow terminal does not block the loop: unsent bytes are kept and sent later,
// and until then terminal_is_busy.
//
// Threads: the loop's; open it before other threads start, because signals are blocked.  One at a
// time.
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
    void (*resized)(void *owner); // also after a stop, when its content is unknown
    void (*ended)(void *owner);
    void *owner;
};

struct terminal_size {
    uint32_t width;
    uint32_t height;
};

// The terminal of standard output.  IO: it is not a terminal, or cannot be opened.  At most
// `size_max` bytes are written at once.
enum status terminal_open(struct loop *loop, const struct terminal_listener *listener,
                          size_t size_max, struct terminal **out);

// Clears the caller's pointer, which may be NULL.
void terminal_close(struct terminal **terminal);

// 80 by 24 if the terminal does not tell.
struct terminal_size terminal_size(const struct terminal *terminal);
// Of standard output; width 0: it is not a terminal.
struct terminal_size terminal_size_of_output(void);

// Whether unsent bytes are left.
bool terminal_is_busy(const struct terminal *terminal);

// Not while it is busy.
void terminal_write(struct terminal *terminal, struct slice bytes);
