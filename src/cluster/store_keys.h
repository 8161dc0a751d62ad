// SPDX-License-Identifier: Apache-2.0
//
// store_keys.h -- the names of a cluster's keys in a store.
//
//     warmpath:{NAME}:m              hash: the hello of each router
//     warmpath:{NAME}:d:FROM         stream: frames of one router to all
//     warmpath:{NAME}:d:FROM:TO      stream: frames of one router to one other
//
// The braces put all keys of a cluster into one slot of a Redis Cluster.  A router is 16
// hexadecimal digits.
#pragma once

#include "base/text.h"

#include <inttypes.h>

enum { store_key_size_max = 128, store_router_digits = 16 };

static inline void store_key_members(const char *cluster, struct text *out)
{
    text_add_format(out, "warmpath:{%s}:m", cluster);
}

static inline void store_key_router(uint64_t router, struct text *out)
{
    text_add_format(out, "%016" PRIx64, router);
}

// `to` 0: to all.
static inline void store_key_stream(const char *cluster, uint64_t from, uint64_t to,
                                    struct text *out)
{
    text_add_format(out, "warmpath:{%s}:d:%016" PRIx64, cluster, from);
    if (to != 0) {
        text_add_format(out, ":%016" PRIx64, to);
    }
}

// False: not an id in our spelling.
static inline bool store_key_read_router(struct slice digits, uint64_t *out)
{
    uint64_t router = 0;

    if (digits.size != store_router_digits) {
        return false;
    }
    for (size_t i = 0; i < digits.size; i++) {
        int value = ascii_hex_value(digits.bytes[i]);
        if (value < 0 || (digits.bytes[i] >= 'A' && digits.bytes[i] <= 'F')) {
            return false;
        }
        router = router << 4 | (uint64_t)value;
    }
    *out = router;
    return router != 0;
}
