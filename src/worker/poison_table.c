// SPDX-License-Identifier: Apache-2.0

#include "worker/poison_table.h"

#include "base/base.h"

enum {
    set_size = 4,
    set_count = poison_slot_count / set_size,
    mark_bits = 20,
    second_bits = 15, // a record that lies here for nine hours may look young again
    state_bits = 2,
    tag_bits = 27,
    // A loop's clock stands still during a turn: others may be ahead of it.
    clock_lag_s = 2,
    // Failed exchanges in a row: after that the death is not noted.
    note_tries_max = 8,
};

_Static_assert(tag_bits + mark_bits + second_bits + state_bits == 64, "a record fills a word");

enum poison_state { RECORD_EMPTY, RECORD_SUSPECT, RECORD_POISON, RECORD_HARMLESS };

struct poison_record {
    uint32_t tag;    // of the prompt's hash, without the bits that choose the set
    uint32_t mark;   // of a suspect: the server that died; of poison: the epoch of its proof
    uint32_t second; // of the last death; of a harmless prompt: of the last response
    enum poison_state state;
};

// A prompt's set, as it was a moment ago.
struct poison_set {
    atomic_uint_fast64_t *slots;
    uint32_t tag;
    uint64_t words[set_size];
};

static uint32_t low_bits(uint64_t word, uint32_t count)
{
    return (uint32_t)(word & ((1ULL << count) - 1));
}

uint32_t poison_server_name(uint64_t server)
{
    return low_bits(server, mark_bits);
}

static uint64_t poison_pack(const struct poison_record *record)
{
    return ((uint64_t)record->tag << (64 - tag_bits)) |
           ((uint64_t)record->mark << (second_bits + state_bits)) |
           ((uint64_t)record->second << state_bits) | (uint64_t)record->state;
}

static struct poison_record poison_unpack(uint64_t word)
{
    return (struct poison_record){
        .tag = (uint32_t)(word >> (64 - tag_bits)),
        .mark = low_bits(word >> (second_bits + state_bits), mark_bits),
        .second = low_bits(word >> state_bits, second_bits),
        .state = (enum poison_state)low_bits(word, state_bits),
    };
}

// How little would be lost with a record.
static uint32_t poison_staleness(uint64_t word, uint32_t now_s)
{
    enum { faded = poison_fade_s + clock_lag_s + 1 };
    const struct poison_record record = poison_unpack(word);
    uint32_t age_s = low_bits(now_s + clock_lag_s - record.second, second_bits);

    if (record.state == RECORD_EMPTY || age_s >= faded) {
        return UINT32_MAX;
    }
    return record.state == RECORD_POISON ? age_s : age_s + faded;
}

// The index in the set of the prompt's record, or of the one to replace; then *out is empty.
static uint32_t poison_find(const struct poison_set *set, uint32_t now_s, struct poison_record *out)
{
    uint32_t stalest = 0;

    for (uint32_t i = 0; i < set_size; i++) {
        const struct poison_record record = poison_unpack(set->words[i]);
        uint32_t staleness = poison_staleness(set->words[i], now_s);
        if (record.tag == set->tag && staleness != UINT32_MAX) {
            *out = record;
            return i;
        }
        stalest = staleness > poison_staleness(set->words[stalest], now_s) ? i : stalest;
    }
    *out = (struct poison_record){.tag = set->tag};
    return stalest;
}

// Whether the request was routed after the proof.
static bool poison_concerns(const struct poison_record *record, const struct poison_death *death)
{
    return low_bits(death->epoch - record->mark, mark_bits) < 1U << (mark_bits - 1);
}

static enum poison_verdict poison_add(struct poison_table *table, struct poison_record *record,
                                      const struct poison_death *death, uint32_t *other)
{
    uint32_t server = poison_server_name(death->server);
    uint32_t earlier = poison_server_name(death->earlier);

    if (record->state == RECORD_POISON) {
        return poison_concerns(record, death) ? POISON_KNOWN : POISON_UNPROVEN;
    }
    if (earlier == 0 || earlier == server) {
        earlier = record->mark; // 0: none
    }
    if (earlier == 0 || earlier == server) {
        record->state = RECORD_SUSPECT;
        record->mark = server;
        return POISON_UNPROVEN;
    }
    uint32_t epoch = 1 + atomic_fetch_add_explicit(&table->epoch, 1, memory_order_relaxed);
    record->state = RECORD_POISON;
    record->mark = low_bits(epoch, mark_bits);
    *other = earlier;
    return POISON_PROVEN;
}

static struct poison_set poison_load(struct poison_table *table, uint64_t prompt)
{
    struct poison_set set = {
        .slots = &table->slots[prompt % set_count * set_size],
        .tag = (uint32_t)(prompt >> (64 - tag_bits)),
    };
    for (uint32_t i = 0; i < set_size; i++) {
        set.words[i] = atomic_load_explicit(&set.slots[i], memory_order_relaxed);
    }
    return set;
}

// False: another thread was faster.
static bool poison_replace(struct poison_set *set, uint32_t index, uint64_t word)
{
    return atomic_compare_exchange_strong_explicit(&set->slots[index], &set->words[index], word,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static uint32_t poison_second(uint64_t now_ms)
{
    return low_bits(now_ms / 1000, second_bits);
}

uint32_t poison_epoch(const struct poison_table *table)
{
    return atomic_load_explicit(&table->epoch, memory_order_relaxed);
}

enum poison_verdict poison_note_death(struct poison_table *table, const struct poison_death *death,
                                      uint64_t now_ms, uint32_t *other)
{
    enum poison_verdict verdict = POISON_UNPROVEN;
    uint32_t now_s = poison_second(now_ms);
    bool is_noted = false;

    for (uint32_t i = 0; i < note_tries_max && !is_noted; i++) {
        struct poison_set set = poison_load(table, death->prompt);
        struct poison_record record;
        uint32_t index = poison_find(&set, now_s, &record);
        if (record.state == RECORD_HARMLESS) {
            verdict = POISON_UNPROVEN;
            break;
        }
        verdict = poison_add(table, &record, death, other);
        record.second = now_s;
        is_noted = poison_replace(&set, index, poison_pack(&record));
    }
    atomic_store_explicit(&table->last_ms, now_ms, memory_order_relaxed);
    return verdict;
}

bool poison_awaits_response(const struct poison_table *table, uint64_t now_ms)
{
    uint64_t last_ms = atomic_load_explicit(&table->last_ms, memory_order_relaxed);
    return last_ms != 0 && now_ms < last_ms + (poison_fade_s + clock_lag_s) * 1000ULL;
}

void poison_note_response(struct poison_table *table, uint64_t prompt, uint64_t now_ms)
{
    struct poison_set set = poison_load(table, prompt);
    struct poison_record record;
    uint32_t now_s = poison_second(now_ms);
    uint32_t index = poison_find(&set, now_s, &record);
    struct poison_record harmless = {.tag = set.tag, .second = now_s, .state = RECORD_HARMLESS};

    if (record.state != RECORD_EMPTY) {
        // If it fails, a death came in between: the next response is noted.
        poison_replace(&set, index, poison_pack(&harmless));
    }
}
