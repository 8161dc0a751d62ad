// SPDX-License-Identifier: Apache-2.0
//
// The readers' side of the index and of the ledger: prefix_index_match(), prefix_ledger_match().
//
// A match costs two cache misses for each run, its bucket and itself.  They are prefetched, because
// most runs are full, which tells where the next ones begin.

#include "prefix/prefix_index_internal.h"
#include "prefix/prefix_ledger_internal.h"

enum {
    few_hits = 8, // more than these are found through a table
    no_hit = UINT16_MAX,
    try_max = 1000,
    buckets_ahead = 8, // prefetched so many runs before they are read
    runs_ahead = 4,
};

// The slots that matched when a run was prefetched.  Only a hint: they may have changed since.
struct hint {
    uint32_t depth;
    uint32_t likely;
};

// The current match.
struct run_match {
    const struct prefix_runs *runs;
    const struct prefix_index *index; // NULL: a ledger, whose holders are always believed
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t now_s;
    struct prefix_hit *hits;
    uint32_t hit_max;
    uint32_t hit_count;
    uint32_t depth; // keys done
    uint32_t same;  // keys of the run that is being read
    uint32_t whole; // holders that have all of them, and all before
    uint32_t ahead; // up to which depth buckets were prefetched
    struct hint hints[2 * runs_ahead];
    uint32_t place_mask; // of the table of hits, or 0: hits are few
};

// The run that was found.
struct found_run {
    const struct granule *run; // NULL: none
    uint32_t version;          // that it had while it was that run
    uint32_t same;             // keys that it begins with
};

// How many keys the run has in common with the prompt, 0: it is another one.
static uint32_t match_compare(const struct granule *run, const uint64_t *keys, uint32_t left)
{
    uint32_t shape = SEE(&run->shape);
    if ((shape ^ tag_of(keys[0])) >= 256) {
        return 0;
    }
    return keys_in_common(run, 0, keys, min_u32(key_count_of(shape), left));
}

// The last key is compared first, and mostly no other: the line in the middle can stay.
static void prefetch_run(const struct granule *run)
{
    const char *line = (const char *)run;
    __builtin_prefetch(line);
    __builtin_prefetch(line + 128);
}

// Looks at these slots of a bucket for the run that begins with the first of the keys.
static struct found_run match_find_in_bucket(const struct run_match *match,
                                             const struct run_bucket *bucket, uint32_t likely)
{
    const struct prefix_runs *runs = match->runs;
    for (; likely != 0; likely &= likely - 1) {
        const _Atomic uint32_t *place = &bucket->slots[__builtin_ctz(likely)];
        uint32_t slot = SEE(place);
        struct found_run found = {.run = granule_at(runs, slot & runs->id_mask)};
        prefetch_run(found.run);
        found.version = SEE(&found.run->version);
        // Still there after its version was read: the version belongs to this life of the
        // granule.  Otherwise the run was freed during this call, and need not be looked for
        // again.
        if (slot == 0 || SEE(place) != slot) {
            continue;
        }
        found.same =
            match_compare(found.run, match->keys + match->depth, match->key_count - match->depth);
        if (found.same != 0) {
            return found;
        }
    }
    return (struct found_run){0};
}

// Finds the run at match->depth.
static struct found_run match_find_run(const struct run_match *match)
{
    const struct prefix_runs *runs = match->runs;
    uint64_t key = match->keys[match->depth];
    uint32_t at = run_bucket_of(runs, key);
    const struct hint *hint = &match->hints[match->depth / run_key_max % ARRAY_COUNT(match->hints)];
    struct found_run found = {0};
    if (hint->depth == match->depth) {
        found = match_find_in_bucket(match, &runs->buckets[at], hint->likely);
    }
    for (uint32_t i = 0; found.run == NULL && i < runs->bucket_count; i++) {
        const struct run_bucket *bucket = &runs->buckets[at];
        found = match_find_in_bucket(match, bucket, likely_slots(runs, bucket, key));
        if (SEE(&bucket->passed) == 0) {
            break;
        }
        at = run_bucket_after(runs, at);
    }
    return found;
}

// Where the hit of a backend is, or NULL.
static struct prefix_hit *hit_of(const struct run_match *match, uint32_t backend)
{
    if (match->place_mask != 0) {
        uint32_t i = match->hits[backend & match->place_mask].first;
        while (i != no_hit && match->hits[i].backend != backend) {
            i = match->hits[i].next;
        }
        return i != no_hit ? &match->hits[i] : NULL;
    }
    for (uint32_t i = 0; i < match->hit_count; i++) {
        if (match->hits[i].backend == backend) {
            return &match->hits[i];
        }
    }
    return NULL;
}

// The hit that a holder of the run may lengthen, a new one in the first run; NULL: none.
static struct prefix_hit *hit_to_lengthen(struct run_match *match, uint32_t backend)
{
    if (match->depth != 0) {
        struct prefix_hit *hit = hit_of(match, backend);
        return hit != NULL && hit->blocks == match->depth ? hit : NULL;
    }
    if (match->hit_count == match->hit_max) {
        return NULL;
    }
    struct prefix_hit *hit = &match->hits[match->hit_count];
    *hit = (struct prefix_hit){.backend = backend};
    return hit;
}

// Reads a holder.  False if it does not hold the first key of the run, without which a hit neither
// begins nor goes on.
static inline bool see_holder(const _Atomic uint64_t *holder, uint64_t *who, uint64_t *more)
{
    uint32_t tries = 0;
    // The two words belong together when the first is the same before and after.
    do {
        *who = SEE(&holder[0]);
        if ((*who >> 16 & 1) == 0 || tries++ == try_max) {
            return false;
        }
        *more = SEE(&holder[1]);
    } while (SEE(&holder[0]) != *who);
    return true;
}

// Adds the blocks of a holder to the hit of its backend.  `index` is NULL for a ledger, whose
// holders are always believed.
static inline void read_holder(struct run_match *match, const _Atomic uint64_t *holder,
                               const struct prefix_index *index)
{
    uint64_t who;
    uint64_t more;
    uint32_t age = 0;
    if (!see_holder(holder, &who, &more) || backend_of(who) >= match->runs->backend_count ||
        (index != NULL && !is_believed(index, who, more, match->now_s, &age))) {
        return;
    }
    struct prefix_hit *hit = hit_to_lengthen(match, backend_of(who));
    if (hit == NULL) {
        return;
    }
    match->hit_count += match->depth == 0;
    uint32_t leading = min_u32((uint32_t)__builtin_ctz(~held_of(who)), match->same);
    match->whole += leading == match->same;
    if (index == NULL) {
        uint32_t elsewhere = ((1U << leading) - 1) & ~on_gpu_of(who);
        if (elsewhere != 0) {
            uint32_t in_host = (uint32_t)__builtin_popcount(elsewhere & in_host_of(more));
            hit->host += in_host;
            hit->disk += (uint32_t)__builtin_popcount(elsewhere) - in_host;
        }
        hit->confirmed += leading;
    } else if (hit->confirmed == match->depth) {
        uint32_t shown = (uint32_t)__builtin_ctz(~(held_of(who) & confirmed_of(who)));
        hit->confirmed += min_u32(shown, leading);
    }
    hit->blocks += leading;
    hit->age = age > hit->age ? age : hit->age;
}

// Two loops, so that each has only the code of its kind.
static inline void read_holders(struct run_match *match, const _Atomic uint64_t *words,
                                uint32_t word_count)
{
    if (match->index != NULL) {
        for (uint32_t i = 0; i < word_count; i += holder_words) {
            read_holder(match, &words[i], match->index);
        }
    } else {
        for (uint32_t i = 0; i < word_count; i += holder_words) {
            read_holder(match, &words[i], NULL);
        }
    }
}

static void prefetch_chunk(const struct run_match *match, uint32_t id)
{
    const char *chunk = (const char *)granule_at(match->runs, id);
    __builtin_prefetch(chunk);
    __builtin_prefetch(chunk + 64);
    __builtin_prefetch(chunk + 128);
}

// False: the run changed, and the hits are invalid.
static bool match_read_list(struct run_match *match, const struct granule *run, uint32_t version,
                            uint32_t id)
{
    while (id != 0) {
        if (SEE(&run->version) != version) {
            return false;
        }
        const struct granule *chunk = granule_at(match->runs, id);
        id = SEE(&chunk->next);
        prefetch_chunk(match, id);
        read_holders(match, chunk->words, chunk_words);
    }
    return true;
}

static bool match_read_overflow(struct run_match *match, const struct granule *run,
                                uint32_t version)
{
    uint32_t overflow = SEE(&run->overflow);
    if ((overflow & directory_bit) == 0) {
        return match_read_list(match, run, version, overflow);
    }
    const struct granule *directory = granule_at(match->runs, overflow & ~directory_bit);
    uint32_t heads[fan_out];
    for (uint32_t i = 0; i < fan_out; i++) {
        heads[i] = (uint32_t)SEE(&directory->words[i]);
    }
    // The heads are valid only if the run has not changed.
    if (SEE(&run->version) != version) {
        return false;
    }
    for (uint32_t i = 0; i < fan_out; i++) {
        prefetch_chunk(match, heads[i]);
    }
    for (uint32_t i = 0; i < fan_out; i++) {
        if (!match_read_list(match, run, version, heads[i])) {
            return false;
        }
    }
    return true;
}

// Reads the run at match->depth.  False: it changed meanwhile, and the match is invalid.
static bool match_read_run(struct run_match *match)
{
    struct found_run found = match_find_run(match);
    match->whole = 0;
    if (found.run == NULL) {
        return true;
    }
    match->same = found.same;
    read_holders(match, found.run->words, inline_words);
    if (!match_read_overflow(match, found.run, found.version) ||
        SEE(&found.run->version) != found.version) {
        return false;
    }
    match->depth += match->same;
    return true;
}

// Starts on the run that is expected at a depth, if its bucket is in the cache by now.
static void prefetch_run_at(struct run_match *match, uint32_t depth)
{
    if (depth < match->key_count) {
        const struct prefix_runs *runs = match->runs;
        uint64_t key = match->keys[depth];
        const struct run_bucket *bucket = &runs->buckets[run_bucket_of(runs, key)];
        uint32_t likely = likely_slots(runs, bucket, key);
        match->hints[depth / run_key_max % ARRAY_COUNT(match->hints)] =
            (struct hint){.depth = depth, .likely = likely};
        if (likely != 0) {
            uint32_t slot = OWN(&bucket->slots[__builtin_ctz(likely)]);
            prefetch_run(granule_at(runs, slot & runs->id_mask));
        }
    }
}

// Most runs are full, so the next ones probably begin every 16 keys from here.
static void match_look_ahead(struct run_match *match)
{
    uint32_t last = match->depth + buckets_ahead * run_key_max;
    bool is_in_step = match->ahead == last - run_key_max;
    if (is_in_step) {
        if (last < match->key_count) {
            prefetch_bucket(match->runs, match->keys[last]);
        }
        prefetch_run_at(match, match->depth + runs_ahead * run_key_max);
    } else {
        uint32_t end = min_u32(last + 1, match->key_count);
        for (uint32_t depth = match->depth; depth < end; depth += run_key_max) {
            prefetch_bucket(match->runs, match->keys[depth]);
        }
        for (uint32_t i = 1; i <= runs_ahead; i++) {
            prefetch_run_at(match, match->depth + i * run_key_max);
        }
    }
    match->ahead = last;
}

static bool match_read_further(struct run_match *match)
{
    while (match->whole > 0 && match->depth < match->key_count) {
        match_look_ahead(match);
        if (!match_read_run(match)) {
            return false;
        }
    }
    return true;
}

// With many hits their memory is also a hash table from backends to hits, with a list for each
// place.  Free hits are used as places too, so that most lists have one hit.
static void match_link_hits(struct run_match *match)
{
    uint32_t place_count = UINT32_C(1) << (31 - __builtin_clz(match->hit_count));
    place_count <<= place_count < match->hit_count && 2 * place_count <= match->hit_max;
    match->place_mask = place_count - 1;
    for (uint32_t i = 0; i < place_count; i++) {
        match->hits[i].first = no_hit;
    }
    for (uint32_t i = 0; i < match->hit_count; i++) {
        struct prefix_hit *place = &match->hits[match->hits[i].backend & match->place_mask];
        match->hits[i].next = place->first;
        place->first = (uint16_t)i;
    }
}

// False: a run changed meanwhile, and the hits are invalid.
static bool match_once(struct run_match *match)
{
    match_look_ahead(match);
    if (!match_read_run(match)) {
        return false;
    }
    if (match->hit_count > few_hits) {
        match_link_hits(match);
    }
    return match_read_further(match);
}

// The first chunk of the list where a backend can be.  The number may be of another list already.
static uint32_t list_of(const struct run_match *match, const struct granule *run, uint32_t backend)
{
    uint32_t overflow = SEE(&run->overflow);
    if ((overflow & directory_bit) == 0) {
        return overflow;
    }
    const struct granule *directory = granule_at(match->runs, overflow & ~directory_bit);
    return (uint32_t)SEE(&directory->words[backend % fan_out]);
}

// The blocks of a run that are pending, one bit each.
static uint32_t pending_of(const struct run_match *match, const _Atomic uint64_t *holder,
                           const struct prefix_pending *pending)
{
    uint64_t who = SEE(&holder[0]);
    uint64_t when = SEE(&holder[1]);
    uint32_t age;
    if (backend_of(who) != pending->backend || held_of(who) == 0 || SEE(&holder[0]) != who ||
        !is_believed(match->index, who, when, match->now_s, &age)) {
        return 0;
    }
    bool is_settling = pending->settle_s > 0 && (int64_t)(int32_t)(match->now_s - (uint32_t)when) <=
                                                    (int64_t)pending->settle_s;
    return is_settling ? held_of(who) : held_of(who) & ~confirmed_of(who);
}

// The same of all holders of the run; 0 also when it changed meanwhile.
static uint32_t pending_in(const struct run_match *match, const struct found_run *found,
                           const struct prefix_pending *pending)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < inline_words; i += holder_words) {
        blocks |= pending_of(match, &found->run->words[i], pending);
    }
    uint32_t id = list_of(match, found->run, pending->backend);
    while (blocks == 0 && id != 0 && SEE(&found->run->version) == found->version) {
        const struct granule *chunk = granule_at(match->runs, id);
        id = SEE(&chunk->next);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            blocks |= pending_of(match, &chunk->words[i], pending);
        }
    }
    return SEE(&found->run->version) == found->version ? blocks : 0;
}

uint32_t prefix_index_pending(const struct prefix_index *index,
                              const struct prefix_pending *pending)
{
    struct run_match match = {.runs = &index->runs,
                              .index = index,
                              .keys = pending->keys,
                              .key_count = pending->key_count,
                              .now_s = pending->now_s};
    uint32_t from = pending->from;
    uint32_t count = 0;
    while (match.depth < match.key_count) {
        struct found_run found = match_find_run(&match);
        if (found.run == NULL) {
            break;
        }
        uint32_t first = from > match.depth ? min_u32(from - match.depth, found.same) : 0;
        uint32_t wanted = found.same - first;
        if (wanted > 0) {
            uint32_t blocks = pending_in(&match, &found, pending) >> first;
            uint32_t leading = min_u32((uint32_t)__builtin_ctz(~blocks), wanted);
            count += leading;
            if (leading < wanted) {
                break;
            }
        }
        match.depth += found.same;
    }
    return count;
}

void prefix_index_prefetch(const struct prefix_index *index, uint64_t key)
{
    prefetch_bucket(&index->runs, key);
}

// Tries again while runs change under it.
static uint32_t match_all(const struct run_match *start)
{
    for (uint32_t tries = 0; tries < try_max && start->key_count > 0; tries++) {
        struct run_match match = *start;
        if (match_once(&match)) {
            return match.hit_count;
        }
    }
    return 0;
}

uint32_t prefix_index_match(const struct prefix_index *index, const uint64_t *keys,
                            uint32_t key_count, uint32_t now_s, struct prefix_hit *hits,
                            uint32_t hit_max)
{
    return match_all(&(struct run_match){
        .runs = &index->runs,
        .index = index,
        .keys = keys,
        .key_count = key_count,
        .now_s = now_s,
        .hits = hits,
        .hit_max = min_u32(hit_max, no_hit),
    });
}

void prefix_ledger_prefetch(const struct prefix_ledger *ledger, uint64_t key)
{
    prefetch_bucket(&ledger->runs, key);
}

uint32_t prefix_ledger_match(const struct prefix_ledger *ledger, const uint64_t *keys,
                             uint32_t key_count, struct prefix_hit *hits, uint32_t hit_max)
{
    return match_all(&(struct run_match){
        .runs = &ledger->runs,
        .keys = keys,
        .key_count = key_count,
        .hits = hits,
        .hit_max = min_u32(hit_max, no_hit),
    });
}
