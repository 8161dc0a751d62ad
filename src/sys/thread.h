// SPDX-License-Identifier: Apache-2.0
//
// thread.h -- threads and the cores they run on.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct thread;

// Starts `run` in a thread of that name, with all signals blocked: signals.h receives them.
enum status thread_start(const char *name, void (*run)(void *owner), void *owner,
                         struct thread **out);

// Waits for its end.  Clears the caller's pointer, which may be NULL.
void thread_join(struct thread **thread);

// Lets other threads run.
void thread_yield(void);

// Cores that this process may use.
uint32_t thread_core_count(void);
