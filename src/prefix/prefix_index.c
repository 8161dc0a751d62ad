// SPDX-License-Identifier: Apache-2.0
//
// The writer's side; prefix_match.c is the readers'.

#include "prefix/prefix_index.h"

#include "prefix/prefix_index_internal.h"

#include <stdlib.h>

enum {
    list_chunk_max = 10, // a longer list of holders is spread over fan_out lists
    expiry_max = 4,      // runs looked at by one store
    path_run_max = 8192, // a store that meets more runs ends there
    granule_count_max = 1 << 30,
};

// What was touched longer ago than this is not believed, so that clocks may wrap.
static const uint32_t age_max = UINT32_C(1) << 30;
// Clocks and epochs begin shortly before they wrap, so that every test sees it happen.
static const uint32_t clock_first = UINT32_MAX - 10000;
static const uint32_t epoch_first = UINT16_MAX - 10;

static void count(_Atomic uint64_t *counter, int64_t change)
{
    atomic_store_explicit(counter, OWN(counter) + (uint64_t)change, memory_order_relaxed);
}

// Whether a holder can never be believed again, unless it is stored again.  A capacity may grow, so
// being beyond it is not enough.
static bool is_dead(const struct prefix_index *index, uint64_t who, uint64_t when, uint32_t now_s)
{
    const struct backend_state *backend = &index->backends[backend_of(who)];
    uint64_t pace = OWN(&backend->pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    int32_t since = (int32_t)(clock - (uint32_t)(when >> 32));
    return held_of(who) == 0 || (OWN(&backend->epoch) & 0xffff) != epoch_of(who) ||
           since >= (int64_t)(clock - (uint32_t)pace) ||
           (index->ttl_s != 0 &&
            (int64_t)(int32_t)(now_s - (uint32_t)when) >= (int64_t)index->ttl_s);
}

// What an index of `granule_count` granules takes.
struct sizes {
    size_t buckets;
    size_t backends;
    size_t steps;
    size_t all;
};

static size_t in_lines(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static struct sizes sizes_of(const struct prefix_limits *limits, size_t granule_count,
                             uint32_t step_max)
{
    struct sizes sizes = {
        .buckets = (granule_count / bucket_runs + 1) * sizeof(struct bucket),
        .backends = in_lines(limits->backend_count_max * sizeof(struct backend_state)),
        .steps = in_lines(step_max * sizeof(struct step)),
    };
    sizes.all = sizeof(struct prefix_index) + sizes.buckets + sizes.backends + sizes.steps +
                granule_count * sizeof(struct granule);
    return sizes;
}

// What is touched from the start comes first, so that it shares few pages with what is not.
static void lay_out(struct prefix_index *index, const struct sizes *sizes)
{
    char *at = (char *)index + sizeof(*index);
    index->buckets = (struct bucket *)(void *)at;
    at += sizes->buckets;
    index->backends = (struct backend_state *)(void *)at;
    at += sizes->backends;
    index->steps = (struct step *)(void *)at;
    at += sizes->steps;
    index->granules = (struct granule *)(void *)at;

    for (uint32_t i = 0; i < index->backend_count; i++) {
        index->backends[i] = (struct backend_state){
            .pace = pack(clock_first, clock_first - age_max), .epoch = epoch_first};
    }
    for (uint32_t i = 0; i < index->bucket_count; i++) {
        atomic_init(&index->buckets[i].passed, 0);
        for (uint32_t k = 0; k < bucket_slots; k++) {
            atomic_init(&index->buckets[i].slots[k], 0);
        }
    }
}

struct prefix_index *prefix_index_create(const struct prefix_limits *limits)
{
    ASSERT(limits->backend_count_max >= 1 && limits->backend_count_max <= UINT16_MAX);
    ASSERT((uintptr_t)limits->block % 64 == 0);
    uint32_t step_max =
        (uint32_t)(limits->memory / 256 < path_run_max ? limits->memory / 256 : path_run_max);
    size_t fixed = sizes_of(limits, 0, step_max).all;
    if (limits->memory < fixed + 4 * sizeof(struct granule)) {
        return NULL;
    }
    // Each group of granules comes with a bucket; one more, which is fixed, is for those left over.
    size_t group = bucket_runs * sizeof(struct granule) + sizeof(struct bucket);
    size_t left = limits->memory - fixed;
    size_t more = left % group / sizeof(struct granule);
    size_t granule_count =
        left / group * bucket_runs + (more < bucket_runs ? more : bucket_runs - 1);
    granule_count = granule_count < granule_count_max ? granule_count : granule_count_max;

    struct sizes sizes = sizes_of(limits, granule_count, step_max);
    ASSERT(sizes.all <= limits->memory);
    struct prefix_index *index =
        limits->block != NULL ? limits->block : aligned_alloc(64, sizes.all);
    if (index == NULL) {
        return NULL;
    }
    *index = (struct prefix_index){
        .granule_count = (uint32_t)granule_count,
        .bucket_count = (uint32_t)(sizes.buckets / sizeof(struct bucket)),
        .id_mask = UINT32_MAX >> __builtin_clz((uint32_t)granule_count),
        .backend_count = limits->backend_count_max,
        .step_max = step_max,
        .ttl_s = limits->ttl_s,
        .is_lent = limits->block != NULL,
        .fresh = 1,
    };
    lay_out(index, &sizes);
    return index;
}

void prefix_index_destroy(struct prefix_index **index)
{
    if (*index != NULL && !(*index)->is_lent) {
        free(*index);
    }
    *index = NULL;
}

static void give_granule(struct prefix_index *index, uint32_t id)
{
    PUT(&granule_at(index, id)->next, index->free);
    index->free = id;
    count(&index->shared.granules_used, -1);
}

static void leave_order(struct prefix_index *index, uint32_t id)
{
    struct granule *run = granule_at(index, id);
    *(run->newer != 0 ? &granule_at(index, run->newer)->older : &index->newest) = run->older;
    *(run->older != 0 ? &granule_at(index, run->older)->newer : &index->oldest) = run->newer;
}

// Behind `newer`, or as the newest of all when that is 0.
static void enter_order(struct prefix_index *index, uint32_t id, uint32_t newer)
{
    struct granule *run = granule_at(index, id);
    uint32_t *behind = newer != 0 ? &granule_at(index, newer)->older : &index->newest;
    run->newer = newer;
    run->older = *behind;
    *behind = id;
    *(run->older != 0 ? &granule_at(index, run->older)->newer : &index->oldest) = id;
}

static void change_version(struct granule *run)
{
    PUT(&run->version, OWN(&run->version) + 1);
}

static _Atomic uint32_t *find_slot(struct bucket *bucket, uint32_t slot)
{
    for (uint32_t i = 0; i < bucket_slots; i++) {
        if (OWN(&bucket->slots[i]) == slot) {
            return &bucket->slots[i];
        }
    }
    return NULL;
}

static void enter_bucket(struct prefix_index *index, uint32_t id)
{
    uint64_t key = key_at(granule_at(index, id), 0);
    uint32_t at = bucket_of(index, key);
    _Atomic uint32_t *place;
    while ((place = find_slot(&index->buckets[at], 0)) == NULL) {
        struct bucket *full = &index->buckets[at];
        PUT(&full->passed, OWN(&full->passed) + 1);
        at = bucket_after(index, at);
    }
    PUT(place, slot_of(index, key, id));
}

static void leave_bucket(struct prefix_index *index, uint32_t id)
{
    uint64_t key = key_at(granule_at(index, id), 0);
    uint32_t slot = slot_of(index, key, id);
    uint32_t first = bucket_of(index, key);
    uint32_t at = first;
    _Atomic uint32_t *place;
    while ((place = find_slot(&index->buckets[at], slot)) == NULL) {
        ASSERT(OWN(&index->buckets[at].passed) != 0);
        at = bucket_after(index, at);
    }
    PUT(place, 0);
    for (; first != at; first = bucket_after(index, first)) {
        PUT(&index->buckets[first].passed, OWN(&index->buckets[first].passed) - 1);
    }
}

static void give_chunks(struct prefix_index *index, uint32_t id)
{
    while (id != 0) {
        uint32_t next = OWN(&granule_at(index, id)->next);
        give_granule(index, id);
        id = next;
    }
}

static void give_overflow(struct prefix_index *index, uint32_t overflow)
{
    if ((overflow & directory_bit) == 0) {
        give_chunks(index, overflow);
        return;
    }
    struct granule *directory = granule_at(index, overflow & ~directory_bit);
    for (uint32_t i = 0; i < fan_out; i++) {
        give_chunks(index, (uint32_t)OWN(&directory->words[i]));
    }
    give_granule(index, overflow & ~directory_bit);
}

static void free_run(struct prefix_index *index, uint32_t id)
{
    struct granule *run = granule_at(index, id);
    leave_order(index, id);
    leave_bucket(index, id);
    change_version(run);
    give_overflow(index, OWN(&run->overflow));
    give_granule(index, id);
    count(&index->shared.run_count, -1);
}

static void become_newest(struct prefix_index *index, uint32_t id)
{
    if (index->newest != id) {
        leave_order(index, id);
        enter_order(index, id, 0);
    }
}

// False when all that could be evicted belongs to the store under way.
static bool evict_oldest(struct prefix_index *index)
{
    // Its runs move up when it is done, or here where one is met; no run is met twice.
    for (uint32_t tries = 0; tries <= index->step_count + 1 && index->oldest != 0; tries++) {
        if (granule_at(index, index->oldest)->mark != index->mark) {
            free_run(index, index->oldest);
            count(&index->shared.evictions, 1);
            return true;
        }
        become_newest(index, index->oldest);
    }
    return false;
}

// The one that is taken next, mostly by the next store, was never in a cache or is no longer.
static void prefetch_next(const struct prefix_index *index)
{
    uint32_t id = index->free != 0 ? index->free : index->fresh;
    if (id < index->granule_count) {
        const char *granule = (const char *)granule_at(index, id);
        __builtin_prefetch(granule, 1);
        __builtin_prefetch(granule + 64, 1);
        __builtin_prefetch(granule + 128, 1);
    }
}

// 0 when memory is short.
static uint32_t take_granule(struct prefix_index *index)
{
    if (index->free == 0 && index->fresh == index->granule_count && !evict_oldest(index)) {
        return 0;
    }
    uint32_t id = index->free;
    if (id != 0) {
        index->free = OWN(&granule_at(index, id)->next);
    } else {
        id = index->fresh++;
        PUT(&granule_at(index, id)->version, 0);
    }
    count(&index->shared.granules_used, 1);
    prefetch_next(index);
    return id;
}

// What is too old to be believed goes, a little with each store.  The oldest come first.
static void expire(struct prefix_index *index, uint32_t now_s)
{
    for (uint32_t i = 0; i < expiry_max && index->ttl_s != 0 && index->oldest != 0; i++) {
        uint32_t stored_s = granule_at(index, index->oldest)->stored_s;
        if ((int64_t)(int32_t)(now_s - stored_s) < (int64_t)index->ttl_s) {
            return;
        }
        free_run(index, index->oldest);
        count(&index->shared.expiries, 1);
    }
}

// Walks the places for holders of a run: all of them, or those where one backend can be.
struct cursor {
    const struct prefix_index *index;
    struct granule *granule;
    uint32_t word;
    uint32_t word_end;
    uint32_t overflow;
    uint32_t next;
    uint32_t list;
    uint32_t list_end;
    uint32_t chunk_count; // seen
};

static uint32_t list_head(const struct prefix_index *index, uint32_t overflow, uint32_t list)
{
    return (overflow & directory_bit) == 0
               ? overflow
               : (uint32_t)OWN(&granule_at(index, overflow & ~directory_bit)->words[list]);
}

static struct cursor cursor_of_backend(const struct prefix_index *index, struct granule *run,
                                       uint32_t backend)
{
    uint32_t overflow = OWN(&run->overflow);
    uint32_t list = (overflow & directory_bit) != 0 ? backend % fan_out : 0;
    return (struct cursor){.index = index,
                           .granule = run,
                           .word_end = inline_words,
                           .overflow = overflow,
                           .next = list_head(index, overflow, list),
                           .list = list + 1,
                           .list_end = list + 1};
}

static struct cursor cursor_of_all(const struct prefix_index *index, struct granule *run)
{
    uint32_t overflow = OWN(&run->overflow);
    return (struct cursor){.index = index,
                           .granule = run,
                           .word_end = inline_words,
                           .overflow = overflow,
                           .list_end = (overflow & directory_bit) != 0 ? fan_out : 1};
}

// NULL at the end.
static _Atomic uint64_t *cursor_next(struct cursor *cursor)
{
    if (cursor->word == cursor->word_end) {
        while (cursor->next == 0 && cursor->list < cursor->list_end) {
            cursor->next = list_head(cursor->index, cursor->overflow, cursor->list++);
        }
        if (cursor->next == 0) {
            return NULL;
        }
        cursor->granule = granule_at(cursor->index, cursor->next);
        cursor->next = OWN(&cursor->granule->next);
        cursor->word = 0;
        cursor->word_end = chunk_words;
        cursor->chunk_count++;
    }
    cursor->word += holder_words;
    return &cursor->granule->words[cursor->word - holder_words];
}

static _Atomic uint64_t *find_holder(const struct prefix_index *index, struct granule *run,
                                     uint32_t backend)
{
    struct cursor cursor = cursor_of_backend(index, run, backend);
    _Atomic uint64_t *holder;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        if (backend_of(who) == backend && held_of(who) != 0) {
            return holder;
        }
    }
    return NULL;
}

// An empty chunk, to be the head of a list that goes on with `next`.  0 when memory is short.
static uint32_t new_chunk(struct prefix_index *index, uint32_t next)
{
    uint32_t id = take_granule(index);
    if (id != 0) {
        struct granule *chunk = granule_at(index, id);
        for (uint32_t i = 0; i < chunk_words; i++) {
            PUT(&chunk->words[i], 0);
        }
        PUT(&chunk->next, next);
    }
    return id;
}

// A free place in the backend's list of a directory.  NULL when memory is short.
static _Atomic uint64_t *place_in_list(struct prefix_index *index, struct granule *directory,
                                       uint32_t backend)
{
    _Atomic uint64_t *head = &directory->words[backend % fan_out];
    for (uint32_t id = (uint32_t)OWN(head); id != 0; id = OWN(&granule_at(index, id)->next)) {
        struct granule *chunk = granule_at(index, id);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            if (held_of(OWN(&chunk->words[i])) == 0) {
                return &chunk->words[i];
            }
        }
    }
    uint32_t id = new_chunk(index, (uint32_t)OWN(head));
    if (id == 0) {
        return NULL;
    }
    PUT(head, id);
    return &granule_at(index, id)->words[0];
}

// Makes a directory of a long list.  Without memory for it the list stays as it is.
static void spread(struct prefix_index *index, struct granule *run)
{
    uint32_t list = OWN(&run->overflow);
    uint32_t id = new_chunk(index, 0);
    if (id == 0) {
        return;
    }
    struct granule *directory = granule_at(index, id);
    for (uint32_t at = list; at != 0; at = OWN(&granule_at(index, at)->next)) {
        struct granule *chunk = granule_at(index, at);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            uint64_t who = OWN(&chunk->words[i]);
            if (held_of(who) == 0) {
                continue;
            }
            _Atomic uint64_t *place = place_in_list(index, directory, backend_of(who));
            if (place == NULL) {
                give_overflow(index, id | directory_bit);
                return;
            }
            PUT(&place[1], OWN(&chunk->words[i + 1]));
            PUT(&place[0], who);
        }
    }
    PUT(&run->overflow, id | directory_bit);
    change_version(run);
    give_chunks(index, list);
}

static _Atomic uint64_t *add_place(struct prefix_index *index, struct granule *run,
                                   uint32_t backend, uint32_t chunk_count)
{
    if ((OWN(&run->overflow) & directory_bit) == 0 && chunk_count >= list_chunk_max) {
        spread(index, run);
    }
    uint32_t overflow = OWN(&run->overflow);
    if ((overflow & directory_bit) != 0) {
        return place_in_list(index, granule_at(index, overflow & ~directory_bit), backend);
    }
    uint32_t id = new_chunk(index, overflow);
    if (id == 0) {
        return NULL;
    }
    PUT(&run->overflow, id);
    return &granule_at(index, id)->words[0];
}

// Where the backend is, or can be put, among the holders of a run.  NULL when memory is short.
static _Atomic uint64_t *place_of(struct prefix_index *index, struct granule *run, uint32_t backend,
                                  uint32_t now_s)
{
    struct cursor cursor = cursor_of_backend(index, run, backend);
    _Atomic uint64_t *holder;
    _Atomic uint64_t *empty = NULL;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        if (held_of(who) != 0 && backend_of(who) == backend) {
            return holder;
        }
        // Its own old place is best: a reader who has passed it does not meet the backend again.
        if (held_of(who) == 0 && (empty == NULL || backend_of(who) == backend)) {
            empty = holder;
        }
    }
    if (empty != NULL) {
        return empty;
    }
    uint32_t chunk_count = cursor.chunk_count;
    cursor = cursor_of_backend(index, run, backend);
    while ((holder = cursor_next(&cursor)) != NULL) {
        if (is_dead(index, OWN(&holder[0]), OWN(&holder[1]), now_s)) {
            return holder;
        }
    }
    return add_place(index, run, backend, chunk_count);
}

// Replaces a holder.  In between nobody is there: a reader never sees the time of one with the blocks
// of another.
static void put_holder(_Atomic uint64_t *holder, uint64_t who, uint64_t when)
{
    if (held_of(OWN(&holder[0])) != 0) {
        PUT(&holder[0], 0);
    }
    PUT(&holder[1], when);
    PUT(&holder[0], who);
}

static uint32_t find_own(const struct prefix_index *index, uint64_t key)
{
    uint32_t at = bucket_of(index, key);
    for (;;) {
        const struct bucket *bucket = &index->buckets[at];
        uint32_t likely = likely_slots(index, bucket, key);
        for (; likely != 0; likely &= likely - 1) {
            uint32_t id = OWN(&bucket->slots[__builtin_ctz(likely)]) & index->id_mask;
            const struct granule *run = granule_at(index, id);
            if ((OWN(&run->shape) ^ tag_of(key)) < 256 && key_at(run, 0) == key) {
                return id;
            }
        }
        if (OWN(&bucket->passed) == 0) {
            return 0;
        }
        at = bucket_after(index, at);
    }
}

static void write_keys(struct granule *run, uint32_t first, const uint64_t *keys,
                       uint32_t key_count)
{
    for (uint32_t i = 0; i < key_count; i++) {
        PUT(&run->words[inline_words + first + i], keys[i]);
    }
    PUT(&run->shape, tag_of(key_at(run, 0)) | (first + key_count));
}

// A run without holders, which nobody sees yet.
static uint32_t new_run(struct prefix_index *index, const uint64_t *keys, uint32_t key_count)
{
    uint32_t id = take_granule(index);
    if (id != 0) {
        struct granule *run = granule_at(index, id);
        for (uint32_t i = 0; i < inline_words; i++) {
            PUT(&run->words[i], 0);
        }
        PUT(&run->overflow, 0);
        write_keys(run, 0, keys, key_count);
    }
    return id;
}

// Cuts a run, which keeps its first `at` keys; the others get a run of their own.  Readers find
// the lower part either still here or already there.
static bool split(struct prefix_index *index, uint32_t id, uint32_t at, uint32_t now_s)
{
    struct granule *run = granule_at(index, id);
    uint64_t keys[run_key_max];
    uint32_t key_count = key_count_of(OWN(&run->shape)) - at;
    for (uint32_t i = 0; i < key_count; i++) {
        keys[i] = key_at(run, at + i);
    }
    uint32_t lower_id = new_run(index, keys, key_count);
    if (lower_id == 0) {
        return false;
    }
    struct granule *lower = granule_at(index, lower_id);
    struct cursor cursor = cursor_of_all(index, run);
    _Atomic uint64_t *holder;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        uint64_t when = OWN(&holder[1]);
        if (held_of(who) >> at == 0 || is_dead(index, who, when, now_s)) {
            continue;
        }
        // Without memory for all of them some are forgotten.
        _Atomic uint64_t *place = place_of(index, lower, backend_of(who), now_s);
        if (place != NULL) {
            put_holder(place,
                       make_who(backend_of(who), epoch_of(who), held_of(who) >> at,
                                confirmed_of(who) >> at),
                       when);
        }
    }
    lower->stored_s = run->stored_s;
    lower->mark = index->mark - 1;
    enter_order(index, lower_id, id);
    enter_bucket(index, lower_id);
    count(&index->shared.run_count, 1);

    PUT(&run->shape, tag_of(key_at(run, 0)) | at);
    change_version(run);
    uint32_t kept = (1U << at) - 1;
    cursor = cursor_of_all(index, run);
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        PUT(&holder[0], make_who(backend_of(who), epoch_of(who), held_of(who) & kept,
                                 confirmed_of(who) & kept));
    }
    return true;
}

// A store under way.
struct store {
    struct prefix_index *index;
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t backend;
    uint32_t block_tokens;
    uint32_t now_s;
    bool is_confirmed;
    uint32_t depth;      // keys done
    uint32_t new_blocks; // to this backend
    uint32_t open;       // the run that ends at `depth` and has room for more keys, or 0
};

// The end of a prompt ages before its beginning, but what was touched now is above the floor.
static uint64_t touch(const struct store *store, uint32_t depth)
{
    uint64_t pace = OWN(&store->index->backends[store->backend].pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    uint32_t room = clock - (uint32_t)pace;
    uint32_t age = room == 0 ? 0 : min_u32(depth * store->block_tokens, room - 1);
    return pack(clock - age, store->now_s);
}

// The backend holds the first keys of a run that begins at store->depth.  False: memory is short.
static bool hold(struct store *store, uint32_t id, uint32_t key_count)
{
    struct prefix_index *index = store->index;
    _Atomic uint64_t *holder = place_of(index, granule_at(index, id), store->backend, store->now_s);
    if (holder == NULL) {
        return false;
    }
    uint64_t who = OWN(&holder[0]);
    uint32_t held = 0;
    uint32_t confirmed = 0;
    uint32_t age;
    if (held_of(who) != 0 && backend_of(who) == store->backend &&
        is_believed(index, who, OWN(&holder[1]), store->now_s, &age)) {
        held = held_of(who);
        confirmed = confirmed_of(who);
    }
    uint32_t mask = (1U << key_count) - 1;
    uint32_t epoch = OWN(&index->backends[store->backend].epoch) & 0xffff;
    uint64_t next =
        make_who(store->backend, epoch, held | mask, confirmed | (store->is_confirmed ? mask : 0));
    // The clock is not yet what it will be: finish_store() corrects the time.
    if (held != 0) {
        PUT(&holder[0], next);
    } else {
        put_holder(holder, next, touch(store, store->depth));
    }
    store->new_blocks += (uint32_t)__builtin_popcount(mask & ~held);
    index->steps[index->step_count++] =
        (struct step){.holder = holder, .run = id, .depth = store->depth};
    return true;
}

// The run that ended here takes the next keys, of which nobody else can have any.
static void extend(struct store *store)
{
    struct prefix_index *index = store->index;
    struct granule *run = granule_at(index, store->open);
    uint32_t first = key_count_of(OWN(&run->shape));
    uint32_t more = min_u32(run_key_max - first, store->key_count - store->depth);
    write_keys(run, first, store->keys + store->depth, more);
    uint64_t mask = ((1U << more) - 1) << first;
    _Atomic uint64_t *holder = index->steps[index->step_count - 1].holder;
    PUT(&holder[0], OWN(&holder[0]) | mask << 16 | (store->is_confirmed ? mask : 0));
    store->new_blocks += more;
    store->depth += more;
    store->open = 0;
}

// The next keys have a run of their own.  False when memory is short.
static bool begin_run(struct store *store)
{
    struct prefix_index *index = store->index;
    uint32_t key_count = min_u32(run_key_max, store->key_count - store->depth);
    uint32_t id = new_run(index, store->keys + store->depth, key_count);
    if (id == 0) {
        return false;
    }
    granule_at(index, id)->mark = index->mark;
    granule_at(index, id)->stored_s = store->now_s;
    bool is_held = hold(store, id, key_count); // a run without holders has room for one
    ASSERT(is_held);
    enter_order(index, id, 0);
    enter_bucket(index, id);
    count(&index->shared.run_count, 1);
    store->depth += key_count;
    store->open = key_count < run_key_max ? id : 0;
    return true;
}

// There is a run.  False when memory is short.
static bool follow_run(struct store *store, uint32_t id)
{
    struct prefix_index *index = store->index;
    struct granule *run = granule_at(index, id);
    run->mark = index->mark; // from here on it cannot be evicted
    uint32_t left = store->key_count - store->depth;
    uint32_t same =
        agree(run, store->keys + store->depth, min_u32(key_count_of(OWN(&run->shape)), left));
    if (same < left && same < key_count_of(OWN(&run->shape)) &&
        !split(index, id, same, store->now_s)) {
        return false;
    }
    if (!hold(store, id, same)) {
        return false;
    }
    store->depth += same;
    store->open = same == key_count_of(OWN(&run->shape)) && same < run_key_max ? id : 0;
    return true;
}

// The clock is known now.  From the last run to the first, so that a run is never older than those
// that go on from it (I4).
static void finish_store(struct store *store)
{
    struct prefix_index *index = store->index;
    struct backend_state *backend = &index->backends[store->backend];
    uint64_t pace = OWN(&backend->pace);
    uint32_t clock = (uint32_t)(pace >> 32) + store->new_blocks * store->block_tokens;
    uint32_t floor = (uint32_t)pace;
    floor = clock - floor > age_max ? clock - age_max : floor;
    PUT(&backend->pace, pack(clock, floor));
    for (uint32_t i = index->step_count; i-- > 0;) {
        struct step *step = &index->steps[i];
        PUT(&step->holder[1], touch(store, step->depth));
        granule_at(index, step->run)->stored_s = store->now_s;
        become_newest(index, step->run);
    }
}

void prefix_index_store(struct prefix_index *index, const struct prefix_span *span)
{
    const uint64_t *keys = span->keys;
    uint32_t key_count = span->key_count;
    struct store store = {
        .index = index,
        .keys = keys,
        .key_count = key_count,
        .backend = span->backend,
        .block_tokens = span->block_tokens > 0 ? span->block_tokens : 1,
        .now_s = span->now_s,
        .is_confirmed = span->residency == PREFIX_CONFIRMED,
    };
    ASSERT(span->backend < index->backend_count);
    expire(index, span->now_s);
    index->mark++;
    index->step_count = 0;
    while (store.depth < key_count && index->step_count < index->step_max) {
        uint32_t ahead = store.depth + run_key_max;
        if (ahead < key_count) {
            prefetch_bucket(index, keys[ahead]);
        }
        uint32_t id = find_own(index, keys[store.depth]);
        if (id != 0) {
            if (!follow_run(&store, id)) {
                break;
            }
        } else if (store.open != 0) {
            extend(&store);
        } else if (!begin_run(&store)) {
            break;
        }
    }
    finish_store(&store);
}

void prefix_index_drop(struct prefix_index *index, uint32_t backend,
                       enum prefix_residency residency, const uint64_t *keys, uint32_t key_count,
                       uint32_t from)
{
    ASSERT(backend < index->backend_count);
    uint32_t depth = 0;
    while (depth < key_count) {
        uint32_t id = find_own(index, keys[depth]);
        if (id == 0) {
            return; // and so there is nothing further down (I4)
        }
        struct granule *run = granule_at(index, id);
        uint32_t same =
            agree(run, keys + depth, min_u32(key_count_of(OWN(&run->shape)), key_count - depth));
        uint32_t first = from > depth ? from - depth : 0;
        _Atomic uint64_t *holder = first < same ? find_holder(index, run, backend) : NULL;
        if (holder != NULL) {
            uint64_t who = OWN(&holder[0]);
            uint32_t gone = ((1U << same) - 1) & ~((1U << first) - 1);
            gone &= residency == PREFIX_PREDICTED ? ~confirmed_of(who) : ~0U;
            PUT(&holder[0],
                make_who(backend, epoch_of(who), held_of(who) & ~gone, confirmed_of(who) & ~gone));
        }
        depth += same;
    }
}

void prefix_index_forget(struct prefix_index *index, uint32_t backend)
{
    ASSERT(backend < index->backend_count);
    uint32_t epoch = OWN(&index->backends[backend].epoch) + 1;
    PUT(&index->backends[backend].epoch, epoch);
    if ((epoch & 0xffff) != 0) {
        return;
    }
    // Once in 65,536 times: holders of the first epoch would be believed again.
    for (uint32_t id = index->newest; id != 0; id = granule_at(index, id)->older) {
        _Atomic uint64_t *holder = find_holder(index, granule_at(index, id), backend);
        if (holder != NULL) {
            PUT(&holder[0], 0);
        }
    }
}

void prefix_index_forget_older(struct prefix_index *index, uint32_t backend, uint32_t age)
{
    ASSERT(backend < index->backend_count);
    uint64_t pace = OWN(&index->backends[backend].pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    if (age < clock - (uint32_t)pace) {
        PUT(&index->backends[backend].pace, pack(clock, clock - age));
    }
}

void prefix_index_set_capacity(struct prefix_index *index, uint32_t backend, uint32_t tokens)
{
    ASSERT(backend < index->backend_count);
    PUT(&index->backends[backend].capacity, tokens);
}

void prefix_index_usage(const struct prefix_index *index, struct prefix_usage *out)
{
    *out = (struct prefix_usage){
        .memory = SEE(&index->shared.granules_used) * sizeof(struct granule),
        .run_count = SEE(&index->shared.run_count),
        .evictions = SEE(&index->shared.evictions),
        .expiries = SEE(&index->shared.expiries),
    };
}
