// SPDX-License-Identifier: Apache-2.0

#include "worker/poison_table.h"

#include "base/base.h"

enum {
    set_size = 4,
    set_count = poison_slot_count / set_size,
    server_bits = 20,
    second_bits = 15, // a record that lies here for nine hours may look young again
    tag_bits = 28,
    // A loop's clock stands still during a turn: others may be ahead of it.
    clock_lag_s = 2,
    // Failed exchanges in a row: after that the death is not noted.
    note_tries_max = 8,
};

_Static_assert(tag_bits + server_bits + second_bits + 1 == 64, "a record fills a word");

struct poison_record {
    uint32_t tag;    // of the prompt's hash, without the bits that choose the set
    uint32_t server; // the first that died
    uint32_t second; // of the last death
    bool is_poison;
};

static uint32_t low_bits(uint64_t word, uint32_t count)
{
    return (uint32_t)(word & ((1ULL << count) - 1));
}

uint32_t poison_server_name(uint64_t server)
{
    return low_bits(server, server_bits);
}

static uint64_t poison_pack(const struct poison_record *record)
{
    return ((uint64_t)record->tag << (64 - tag_bits)) |
           ((uint64_t)record->server << (second_bits + 1)) | ((uint64_t)record->second << 1) |
           record->is_poison;
}

static struct poison_record poison_unpack(uint64_t word)
{
    return (struct poison_record){
        .tag = (uint32_t)(word >> (64 - tag_bits)),
        .server = low_bits(word >> (second_bits + 1), server_bits),
        .second = low_bits(word >> 1, second_bits),
        .is_poison = (word & 1) != 0,
    };
}

// How little would be lost with a record.
static uint32_t poison_staleness(uint64_t word, uint32_t now_s)
{
    enum { faded = poison_fade_s + clock_lag_s + 1 };
    const struct poison_record record = poison_unpack(word);
    uint32_t age_s = low_bits(now_s + clock_lag_s - record.second, second_bits);

    if (word == 0 || age_s >= faded) {
        return UINT32_MAX;
    }
    return record.is_poison ? age_s : age_s + faded;
}

// The index in the set of the prompt's record, or of the one to replace.
static uint32_t poison_find(const uint64_t set[set_size], uint32_t tag, uint32_t now_s,
                            struct poison_record *out)
{
    uint32_t stalest = 0;

    for (uint32_t i = 0; i < set_size; i++) {
        const struct poison_record record = poison_unpack(set[i]);
        uint32_t staleness = poison_staleness(set[i], now_s);
        if (record.tag == tag && staleness != UINT32_MAX) {
            *out = record;
            return i;
        }
        stalest = staleness > poison_staleness(set[stalest], now_s) ? i : stalest;
    }
    *out = (struct poison_record){.tag = tag};
    return stalest;
}

// A server of 0 is none.
static enum poison_verdict poison_add(struct poison_record *record,
                                      const struct poison_death *death, uint32_t *other)
{
    uint32_t server = poison_server_name(death->server);
    uint32_t earlier = poison_server_name(death->earlier);

    if (record->is_poison) {
        return POISON_KNOWN;
    }
    if (earlier == 0 || earlier == server) {
        earlier = record->server;
    }
    record->is_poison = earlier != 0 && earlier != server;
    if (!record->is_poison) {
        record->server = server;
        return POISON_SUSPECT;
    }
    *other = earlier;
    return POISON_PROVEN;
}

enum poison_verdict poison_note(struct poison_table *table, const struct poison_death *death,
                                uint64_t now_ms, uint32_t *other)
{
    atomic_uint_fast64_t *slots = &table->slots[death->prompt % set_count * set_size];
    uint32_t tag = (uint32_t)(death->prompt >> (64 - tag_bits));
    uint32_t now_s = low_bits(now_ms / 1000, second_bits);
    enum poison_verdict verdict = POISON_SUSPECT;
    bool is_noted = false;

    for (uint32_t i = 0; i < note_tries_max && !is_noted; i++) {
        uint64_t set[set_size];
        struct poison_record record;
        for (uint32_t k = 0; k < set_size; k++) {
            set[k] = atomic_load_explicit(&slots[k], memory_order_relaxed);
        }
        uint32_t index = poison_find(set, tag, now_s, &record);
        verdict = poison_add(&record, death, other);
        record.second = now_s;
        is_noted = atomic_compare_exchange_strong_explicit(
            &slots[index], &set[index], poison_pack(&record), memory_order_relaxed,
            memory_order_relaxed);
    }
    return verdict;
}
