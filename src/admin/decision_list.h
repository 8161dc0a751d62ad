// SPDX-License-Identifier: Apache-2.0
//
// decision_list.h -- decisions of the chronicle as JSON: the last ones, and one by its request id.
//
//     {"serial": 4711, "decisions": [{…}, …]}      newest first, each as decision_json.h writes it
//
// Decisions are copied while the scribe's lock is held and formatted after it, so that formatting
// does not hold up the scribe.
#pragma once

#include "base/slice.h"

struct admin_options;
struct json_writer;

enum { decision_list_max = 1000 };

struct decision_query {
    uint64_t since; // a serial: only decisions after it
    uint32_t limit; // at most decision_list_max
};

struct decision_list {
    uint64_t serial; // the newest of all, 0 if there was never one
    uint32_t count;  // written
};

// False, with nothing written: memory is short.
bool decision_list_put(const struct admin_options *options, const struct decision_query *query,
                       struct decision_list *out, struct json_writer *json);

// False, with nothing written: the chronicle does not have it.
bool decision_list_find(const struct admin_options *options, struct slice id,
                        struct json_writer *json);
