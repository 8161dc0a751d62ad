// SPDX-License-Identifier: Apache-2.0
//
// signals.h -- signals as events of a loop.
//
// Threads: one loop receives them; call signals_open before other threads start.
#pragma once

#include "base/status.h"

struct loop;
struct signals;

enum signal_kind {
    SIGNAL_RELOAD, // SIGHUP
    SIGNAL_REOPEN, // SIGUSR1
    SIGNAL_STOP,   // SIGTERM, SIGINT
};

// Also ignores SIGPIPE: writing to a closed peer is a status.
enum status signals_open(struct loop *loop, void (*heard)(void *owner, enum signal_kind kind),
                         void *owner, struct signals **out);

// Clears the caller's pointer, which may be NULL.
void signals_close(struct signals **signals, struct loop *loop);
