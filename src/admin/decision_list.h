// SPDX-License-Identifier: Apache-2.0
//
// decision_list.h -- decisions that are kept, as JSON: the last ones, and one by its request id.
//
//     {"serial": 4711, "decisions": [{…}, …]}      newest first, each as decision_json.h writes it
//
// What the scribe keeps is copied under its lock and written after it, so that it is not held up by our
// formatting.
#pragma once

#include "base/slice.h"

struct admin_options;
struct text;

enum { decision_list_max = 1000 };

struct decision_query {
    uint64_t since; // a serial: only what changed after it
    uint32_t limit; // at most decision_list_max
};

// Returns how many there were.  *serial is the newest of all, 0: none was ever kept; `since` it there is
// nothing new.
uint32_t decision_list_add(const struct admin_options *options, const struct decision_query *query,
                           uint64_t *serial, struct text *json);

// False: it is not kept, and nothing was written.
bool decision_list_find(const struct admin_options *options, struct slice id, struct text *json);
