// SPDX-License-Identifier: Apache-2.0
//
// open_table.h -- predictions of all routers that are neither confirmed nor withdrawn.
//
// The index has one bit for "somebody was sent this block".  Two routers may have sent the same
// prompt, and one of them may take it back: then the bit has to stay for the other.  So predictions
// are kept here with their keys until they end; the index is a projection of them.
//
// A prediction is named by its router and number.  The table has a limit in predictions and in
// keys; beyond it the oldest are told to `expired`, as if they were withdrawn.
//
// Threads: one.  Memory: taken by _open.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct open_prediction {
    uint64_t router;
    uint64_t number;
    uint64_t backend; // its identity
    uint64_t era;
    uint64_t since_ms;
    uint64_t told_ms; // when its router last said that it is open; 0: never
    uint32_t block_tokens;
    uint32_t key_count; // 0: it has ended
    bool is_expected;
    const uint64_t *keys;  // the table's, until the next add
    uint64_t key_position; // the table's own, as `next`
    uint32_t next;
};

typedef void open_expired_fn(void *owner, const struct open_prediction *prediction);

struct open_table {
    struct open_prediction *entries; // a ring
    uint64_t first;                  // position of the oldest; all before it have ended
    uint64_t end;
    uint32_t entry_max; // a power of two
    uint32_t *heads;    // lists by hash, of positions + 1 modulo entry_max
    uint64_t *keys;     // a ring
    uint64_t key_first;
    uint64_t key_end;
    uint32_t key_max;
    open_expired_fn *expired;
    void *owner;
    uint32_t count; // open ones
};

// Both limits are powers of two.  False when memory is short.
bool open_table_open(struct open_table *table, uint32_t entry_max, uint32_t key_max,
                     open_expired_fn *expired, void *owner);
void open_table_close(struct open_table *table);

// Copies the keys.  A second prediction of that name replaces the first, silently.
void open_table_add(struct open_table *table, const struct open_prediction *prediction);

// Ends a prediction.  False: it is not there.  *out stays valid until the next add.
bool open_table_end(struct open_table *table, uint64_t router, uint64_t number,
                    struct open_prediction *out);

// Its router says that it is open.
void open_table_tell(struct open_table *table, uint64_t router, uint64_t number, uint64_t now_ms);

// The next open prediction from *position on, which begins at 0 and moves behind it; NULL: none.
const struct open_prediction *open_table_next(const struct open_table *table, uint64_t *position);
