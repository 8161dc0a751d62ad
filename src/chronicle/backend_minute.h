// SPDX-License-Identifier: Apache-2.0
//
// backend_minute.h -- how each backend did in the last minute.
//
// For each a ring of stretches of five seconds, as in timeline.h, with coarse histograms: 2.6 KB a backend.
// There are no percentiles of round-robin: its requests are not those of this backend.
//
// Threads: one at a time.  Memory: taken by _create, touched for backends that are there.
#pragma once

#include "chronicle/chronicle.h"

struct receipt_share;
struct backend_minute;

// NULL when memory is short.
struct backend_minute *backend_minute_create(uint32_t member_max);
void backend_minute_destroy(struct backend_minute **minutes);

// A request of the backend of that slot (member_table.h), in the step that is open.
void backend_minute_note(struct backend_minute *minutes, uint32_t slot, uint64_t step,
                         const struct receipt_share *account);

// The minute before the end of that step, without its span.
void backend_minute_sum(const struct backend_minute *minutes, uint32_t slot, uint64_t step,
                        struct chronicle_figures *out);

// That slot has nobody any more.
void backend_minute_forget(struct backend_minute *minutes, uint32_t slot);
