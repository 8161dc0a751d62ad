// SPDX-License-Identifier: Apache-2.0

#include "sys/log_limit.h"

#include "base/base.h"

static bool is_quiet(const struct log_limit_slot *slot, uint64_t now_ms)
{
    return now_ms < atomic_load_explicit(&slot->quiet_until_ms, memory_order_relaxed);
}

// A place whose pause is over is as good as free: all that is forgotten is a count.
static bool limit_take_slot(struct log_limit_slot *slot, uint64_t key, uint64_t now_ms)
{
    uint_fast64_t before = atomic_load_explicit(&slot->key, memory_order_relaxed);
    if (is_quiet(slot, now_ms) ||
        !atomic_compare_exchange_strong_explicit(&slot->key, &before, key, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&slot->held, 0, memory_order_relaxed);
    return true;
}

static struct log_limit_slot *limit_slot_of(struct log_limit *limit, uint64_t key, uint64_t now_ms)
{
    _Static_assert(log_limit_slots % log_limit_ways == 0, "whole rows");
    struct log_limit_slot *row =
        &limit->slots[key % (log_limit_slots / log_limit_ways) * log_limit_ways];

    for (unsigned i = 0; i < log_limit_ways; i++) {
        if (atomic_load_explicit(&row[i].key, memory_order_relaxed) == key) {
            return &row[i];
        }
    }
    for (unsigned i = 0; i < log_limit_ways; i++) {
        if (limit_take_slot(&row[i], key, now_ms)) {
            return &row[i];
        }
    }
    return &limit->others;
}

bool log_limit_pass(struct log_limit *limit, uint64_t key, uint64_t now_ms, uint64_t pause_ms,
                    uint32_t *held)
{
    ASSERT(key != 0);
    struct log_limit_slot *slot = limit_slot_of(limit, key, now_ms);
    uint_fast64_t until = atomic_load_explicit(&slot->quiet_until_ms, memory_order_relaxed);

    if (now_ms < until ||
        !atomic_compare_exchange_strong_explicit(&slot->quiet_until_ms, &until, now_ms + pause_ms,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&slot->held, 1, memory_order_relaxed);
        return false;
    }
    *held = (uint32_t)atomic_exchange_explicit(&slot->held, 0, memory_order_relaxed);
    return true;
}
