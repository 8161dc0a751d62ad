// SPDX-License-Identifier: Apache-2.0
//
// The writer's side; prefix_match.c is the readers'.
//
// Runs are not split and keys do not move, so that places stay valid.  A key that could go behind
// the end of a run may begin a run already, from a time when another run was before it.  So every
// key is looked up in the table before it is written.

#include "prefix/prefix_ledger.h"

#include "prefix/prefix_ledger_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    place_bits = 4, // of a place: which key of the run
    granule_count_max = 1 << (32 - place_bits),
    keys_ahead = 12, // whose buckets are prefetched
    evicted_bits_min = 5,
    evicted_bits_max = 16, // 512 KiB
    evicted_share = 256,   // one part in so many of the memory
    evicted_way_bits = 3,  // a set is a cache line
    evicted_ways = 1 << evicted_way_bits,
};
_Static_assert(1 << place_bits == run_key_max, "a place has room for every key of a run");

static uint32_t evicted_bits_of(size_t memory)
{
    uint32_t bits = evicted_bits_min;

    while (bits < evicted_bits_max && sizeof(uint64_t) << (bits + 1) <= memory / evicted_share) {
        bits++;
    }
    return bits;
}

struct prefix_ledger *prefix_ledger_create(const struct prefix_ledger_limits *limits)
{
    ASSERT(limits->backend_count_max >= 1 && limits->backend_count_max <= UINT16_MAX);
    ASSERT((uintptr_t)limits->block % 64 == 0);
    size_t memory = limits->memory & ~(size_t)63;
    uint32_t evicted_bits = evicted_bits_of(memory);
    size_t evicted_size = sizeof(uint64_t) << evicted_bits;
    size_t fixed = sizeof(struct prefix_ledger) + evicted_size;
    if (memory < fixed + prefix_runs_size_min()) {
        return NULL;
    }
    struct prefix_ledger *ledger =
        limits->block != NULL ? limits->block : aligned_alloc(64, memory);
    if (ledger == NULL) {
        return NULL;
    }
    char *evicted = (char *)ledger + sizeof(*ledger);
    memset(evicted, 0, evicted_size);
    *ledger = (struct prefix_ledger){
        .is_lent = limits->block != NULL,
        .evicted = (_Atomic uint64_t *)(void *)evicted,
        .evicted_shift = 64 - (evicted_bits - evicted_way_bits),
    };
    prefix_runs_init(&ledger->runs, (char *)ledger + fixed, memory - fixed, granule_count_max);
    ledger->runs.backend_count = limits->backend_count_max;
    return ledger;
}

void prefix_ledger_destroy(struct prefix_ledger **ledger)
{
    if (*ledger != NULL && !(*ledger)->is_lent) {
        free(*ledger);
    }
    *ledger = NULL;
}

// Whether a run that begins with this key may be in the table.  Mostly there is none, so this reads
// buckets as plain words, several at once, which only the writer may do.
static inline bool may_begin_run(const struct prefix_runs *runs, uint64_t key)
{
    int32_t wanted = (int32_t)slot_of(runs, key, 0);
    int32_t tag_mask = (int32_t)~runs->id_mask;
    uint32_t at = run_bucket_of(runs, key);
    for (uint32_t tries = 0; tries < runs->bucket_count; tries++) {
        int32_t __attribute__((vector_size(16))) words[4];
        memcpy(words, (const void *)&runs->buckets[at], sizeof(words));
        int32_t __attribute__((vector_size(16))) equal = (words[0] & tag_mask) == wanted;
        for (uint32_t i = 1; i < ARRAY_COUNT(words); i++) {
            equal |= (words[i] & tag_mask) == wanted;
        }
        if ((equal[0] | equal[1] | equal[2] | equal[3]) != 0) {
            return true;
        }
        if (words[0][0] == 0) { // `passed`
            return false;
        }
        at = run_bucket_after(runs, at);
    }
    return false;
}

// Where the second word of a holder says of these blocks that they are in a tier.
static uint64_t where_of(enum prefix_tier tier, uint32_t blocks)
{
    switch (tier) {
    case PREFIX_HOST:
        return (uint64_t)blocks << 16;
    case PREFIX_DISK:
        return blocks;
    default:
        return 0;
    }
}

// Blocks that are being entered.
struct entering {
    struct prefix_ledger *ledger;
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t done;
    uint32_t backend;
    enum prefix_tier tier;
    uint32_t run;    // of the block before the next one, or 0
    uint32_t after;  // its place in that run
    uint32_t found;  // the run that begins with the next key, or 0: not known
    uint64_t before; // which were held already
};

// The run that begins with one of the keys, or 0.
static inline uint32_t entering_find(const struct entering *entering, uint32_t key)
{
    const struct prefix_runs *runs = &entering->ledger->runs;
    if (key + keys_ahead < entering->key_count) {
        prefetch_bucket(runs, entering->keys[key + keys_ahead]);
    }
    return may_begin_run(runs, entering->keys[key]) ? find_own(runs, entering->keys[key]) : 0;
}

// How many keys, from the given one on and at most `room`, are nowhere yet.
static uint32_t count_new_keys(struct entering *entering, uint32_t first, uint32_t room)
{
    uint32_t most = min_u32(room, entering->key_count - first);
    for (uint32_t i = 0; i < most; i++) {
        entering->found = entering_find(entering, first + i);
        if (entering->found != 0) {
            return i;
        }
    }
    return most;
}

// The blocks of a run that a holder has in a tier.
static uint32_t held_in(const _Atomic uint64_t *holder, enum prefix_tier tier)
{
    switch (tier) {
    case PREFIX_HOST:
        return in_host_of(OWN(&holder[1]));
    case PREFIX_DISK:
        return on_disk_of(OWN(&holder[1]));
    default:
        return on_gpu_of(OWN(&holder[0]));
    }
}

// Adds blocks of a run, whose keys are written, to a holder.  The tier is written before the bit of
// holding (L4).
static void holder_add_blocks(struct granule *run, _Atomic uint64_t *holder, uint32_t blocks,
                              struct entering *entering)
{
    uint64_t who = OWN(&holder[0]);
    if (held_of(who) == 0) {
        who = (uint64_t)entering->backend << 48;
        run->holder_count++;
    } else if (entering->done < 64) {
        uint64_t before = held_in(holder, entering->tier) & blocks;
        entering->before |= before >> __builtin_ctz(blocks) << entering->done;
    }
    uint64_t where = where_of(entering->tier, blocks);
    if (where != 0) {
        PUT(&holder[1], OWN(&holder[1]) | where);
    }
    who |= entering->tier == PREFIX_GPU ? blocks : 0;
    PUT(&holder[0], who | (uint64_t)blocks << 16);
}

// The next keys have a run of their own.  0 when memory is short.
static uint32_t enter_new_run(struct entering *entering)
{
    struct prefix_runs *runs = &entering->ledger->runs;
    uint32_t first = entering->done;
    uint32_t count = 1 + count_new_keys(entering, first + 1, run_key_max - 1);
    uint32_t id = prefix_runs_new(runs, entering->keys + first, count);
    if (id == 0) {
        return 0;
    }
    struct granule *run = granule_at(runs, id);
    holder_add_blocks(run, &run->words[0], (1U << count) - 1, entering);
    prefix_runs_publish(runs, id);
    entering->run = id;
    entering->after = count - 1;
    return count;
}

// The next keys are in a run, from a place on, or go behind its end.  0 when memory is short.
static uint32_t enter_known_run(struct entering *entering, uint32_t id, uint32_t place)
{
    struct prefix_runs *runs = &entering->ledger->runs;
    struct granule *run = granule_at(runs, id);
    uint32_t chunk_count;
    _Atomic uint64_t *holder = find_place(runs, run, entering->backend, &chunk_count);
    if (holder == NULL) {
        holder = prefix_runs_add_place(runs, run, entering->backend, chunk_count);
        if (holder == NULL) {
            return 0;
        }
    }
    const uint64_t *keys = entering->keys + entering->done;
    uint32_t left = entering->key_count - entering->done;
    uint32_t end = key_count_of(OWN(&run->shape));
    uint32_t count = keys_in_common(run, place, keys, min_u32(end - place, left));
    if (place + count == end) {
        // The first of all was asked for already, if it is not in the run.
        uint32_t asked = count == 0;
        uint32_t more = asked + count_new_keys(entering, entering->done + count + asked,
                                               run_key_max - end - asked);
        if (more > 0) {
            prefix_runs_write_keys(run, end, keys + count, more);
            count += more;
        }
    }
    holder_add_blocks(run, holder, ((1U << count) - 1) << place, entering);
    entering->run = id;
    entering->after = place + count - 1;
    return count;
}

// Enters the next keys, as many as one run takes.  0 when memory is short.
static uint32_t enter_next(struct entering *entering)
{
    struct prefix_runs *runs = &entering->ledger->runs;
    uint32_t found = entering->found;
    entering->found = 0;
    uint32_t next = entering->after + 1;
    uint32_t end = 0;
    if (entering->run != 0 && found == 0) {
        const struct granule *run = granule_at(runs, entering->run);
        end = key_count_of(OWN(&run->shape));
        if (next < end && key_at(run, next) == entering->keys[entering->done]) {
            return enter_known_run(entering, entering->run, next);
        }
    }
    if (found == 0) {
        found = entering_find(entering, entering->done);
    }
    if (found != 0) {
        return enter_known_run(entering, found, 0);
    }
    bool has_room = next == end && next < run_key_max;
    return has_room ? enter_known_run(entering, entering->run, next) : enter_new_run(entering);
}

static uint32_t place_run(uint32_t place)
{
    return place >> place_bits;
}

static uint32_t place_key(uint32_t place)
{
    return place & (run_key_max - 1);
}

// Whether the place is a key of a run that some backend holds.
static bool is_place(const struct prefix_runs *runs, uint32_t place)
{
    uint32_t id = place_run(place);
    return id != 0 && id < runs->writer.fresh && granule_at(runs, id)->holder_count != 0 &&
           place_key(place) < key_count_of(OWN(&granule_at(runs, id)->shape));
}

uint32_t prefix_ledger_enter(struct prefix_ledger *ledger, const struct prefix_entry *entry,
                             uint32_t *places)
{
    struct prefix_runs *runs = &ledger->runs;
    ASSERT(entry->backend < runs->backend_count && entry->tier < prefix_tier_count);
    struct entering entering = {
        .ledger = ledger,
        .keys = entry->keys,
        .key_count = entry->key_count,
        .backend = entry->backend,
        .tier = entry->tier,
    };
    if (is_place(runs, entry->after)) {
        entering.run = place_run(entry->after);
        entering.after = place_key(entry->after);
    }
    for (uint32_t i = 0; i < min_u32(keys_ahead, entry->key_count); i++) {
        prefetch_bucket(runs, entry->keys[i]);
    }
    while (entering.done < entering.key_count) {
        uint32_t count = enter_next(&entering);
        if (count == 0) {
            count_by(&ledger->shared.refused, entering.key_count - entering.done);
            break;
        }
        uint32_t last = entering.run << place_bits | entering.after;
        for (uint32_t i = 0; i < count; i++) {
            places[entering.done + i] = last + 1 - count + i;
        }
        entering.done += count;
    }
    if (entry->before != NULL) {
        *entry->before = entering.before;
    }
    return entering.done;
}

bool prefix_ledger_hold(struct prefix_ledger *ledger, uint32_t place, uint32_t backend,
                        enum prefix_tier tier)
{
    struct prefix_runs *runs = &ledger->runs;
    ASSERT(is_place(runs, place));
    struct granule *run = granule_at(runs, place_run(place));
    _Atomic uint64_t *holder = find_holder(runs, run, backend);
    ASSERT(holder != NULL);
    uint32_t block = 1U << place_key(place);
    if ((held_in(holder, tier) & block) != 0) {
        return true;
    }
    holder_add_blocks(run, holder, block, &(struct entering){.backend = backend, .tier = tier});
    return false;
}

static uint64_t evicted_name(uint64_t key, uint32_t backend)
{
    return mix_key(key ^ (uint64_t)backend << 32) | 1; // 0 is an empty slot
}

// The slot in the set of `name` that has `wanted`, which is that name or 0; NULL: there is none.
static _Atomic uint64_t *find_evicted(const struct prefix_ledger *ledger, uint64_t name,
                                      uint64_t wanted)
{
    _Atomic uint64_t *set = &ledger->evicted[(name >> ledger->evicted_shift) * evicted_ways];
    for (uint32_t way = 0; way < evicted_ways; way++) {
        if (OWN(&set[way]) == wanted) {
            return &set[way];
        }
    }
    return NULL;
}

bool prefix_ledger_is_evicted(const struct prefix_ledger *ledger, uint64_t key, uint32_t backend)
{
    uint64_t name = evicted_name(key, backend);
    return find_evicted(ledger, name, name) != NULL;
}

void prefix_ledger_note_computed(struct prefix_ledger *ledger, uint64_t key, uint32_t backend)
{
    uint64_t name = evicted_name(key, backend);
    _Atomic uint64_t *slot = find_evicted(ledger, name, name);
    if (slot != NULL) {
        // It may have got another name meanwhile, which stays.
        atomic_compare_exchange_strong_explicit(slot, &name, 0, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

static void note_evicted(struct prefix_ledger *ledger, const struct granule *run, uint32_t blocks,
                         uint32_t backend)
{
    for (; blocks != 0; blocks &= blocks - 1) {
        uint64_t name = evicted_name(key_at(run, (uint32_t)__builtin_ctz(blocks)), backend);
        if (find_evicted(ledger, name, name) != NULL) {
            continue;
        }
        _Atomic uint64_t *slot = find_evicted(ledger, name, 0);
        if (slot == NULL) {
            uint64_t first = (name >> ledger->evicted_shift) * evicted_ways;
            slot = &ledger->evicted[first + ledger->evicted_way++ % evicted_ways];
        }
        atomic_store_explicit(slot, name, memory_order_relaxed);
    }
}

// The backend no longer holds these blocks of a held run in that tier.
static void leave_blocks(struct prefix_ledger *ledger, uint32_t id, uint32_t blocks,
                         uint32_t backend, enum prefix_tier tier)
{
    struct prefix_runs *runs = &ledger->runs;
    struct granule *run = granule_at(runs, id);
    _Atomic uint64_t *holder = find_holder(runs, run, backend);
    if (holder == NULL) {
        return;
    }
    uint64_t who = OWN(&holder[0]);
    uint64_t where = OWN(&holder[1]);
    uint64_t who_left = who & ~(uint64_t)(tier == PREFIX_GPU ? blocks : 0);
    uint64_t where_left = where & ~where_of(tier, blocks);
    uint32_t kept = on_gpu_of(who_left) | in_host_of(where_left) | on_disk_of(where_left);
    uint32_t gone = held_of(who) & blocks & ~kept;
    who_left &= ~((uint64_t)gone << 16);
    // Before the holder changes: a reader that no longer finds a block must find its eviction.
    note_evicted(ledger, run, gone, backend);
    if (who_left != who) {
        PUT(&holder[0], who_left);
    }
    if (where_left != where) {
        PUT(&holder[1], where_left);
    }
    if (held_of(who_left) == 0 && --run->holder_count == 0) {
        prefix_runs_free(runs, id);
    }
}

void prefix_ledger_leave(struct prefix_ledger *ledger, uint32_t place, uint32_t backend,
                         enum prefix_tier tier)
{
    prefix_ledger_leave_all(ledger, &place, 1, backend, tier);
}

void prefix_ledger_leave_all(struct prefix_ledger *ledger, const uint32_t *places, uint32_t count,
                             uint32_t backend, enum prefix_tier tier)
{
    const struct prefix_runs *runs = &ledger->runs;
    uint32_t i = 0;
    while (i < count) {
        uint32_t id = place_run(places[i]);
        uint32_t blocks = 0;
        for (; i < count && place_run(places[i]) == id; i++) {
            blocks |= (uint32_t)is_place(runs, places[i]) << place_key(places[i]);
        }
        if (blocks != 0) {
            leave_blocks(ledger, id, blocks, backend, tier);
        }
    }
}

uint64_t prefix_ledger_key(const struct prefix_ledger *ledger, uint32_t place)
{
    ASSERT(is_place(&ledger->runs, place));
    return key_at(granule_at(&ledger->runs, place_run(place)), place_key(place));
}

void prefix_ledger_prefetch_place(const struct prefix_ledger *ledger, uint32_t place)
{
    uint32_t id = place_run(place);
    if (id < ledger->runs.granule_count) {
        const char *run = (const char *)granule_at(&ledger->runs, id);
        __builtin_prefetch(run, 1);
        __builtin_prefetch(run + 64);
        __builtin_prefetch(run + 128);
    }
}

void prefix_ledger_prefetch_ends(const struct prefix_ledger *ledger, const uint32_t *places,
                                 uint32_t count)
{
    const struct prefix_runs *runs = &ledger->runs;
    for (uint32_t i = 0; i < count; i++) {
        bool is_new = i == 0 || place_run(places[i]) != place_run(places[i - 1]);
        if (is_new && is_place(runs, places[i])) {
            prefetch_bucket(runs, key_at(granule_at(runs, place_run(places[i])), 0));
        }
    }
}

void prefix_ledger_usage(const struct prefix_ledger *ledger, struct prefix_ledger_usage *out)
{
    *out = (struct prefix_ledger_usage){
        .memory = SEE(&ledger->runs.shared.granules_used) * sizeof(struct granule),
        .limit = (size_t)(ledger->runs.granule_count - 1) * sizeof(struct granule),
        .run_count = SEE(&ledger->runs.shared.run_count),
        .refused = SEE(&ledger->shared.refused),
    };
}
