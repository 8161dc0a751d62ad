// SPDX-License-Identifier: Apache-2.0
//
// The writer's side; prefix_match.c is the readers'.

#include "prefix/prefix_index.h"

#include "prefix/prefix_index_internal.h"

#include <stdlib.h>

enum {
    expiry_max = 4,      // runs looked at by one store
    path_run_max = 8192, // a store that meets more runs ends there
    granule_count_max = 1 << 30,
};

// Blocks that were touched longer ago are not believed, so that clocks may wrap.
static const uint32_t age_max = UINT32_C(1) << 30;
// Clocks and epochs begin shortly before they wrap, so that every test covers it.
static const uint32_t clock_first = UINT32_MAX - 10000;
static const uint32_t epoch_first = UINT16_MAX - 10;

// Whether a holder can never be believed again, unless it is stored again.  A capacity may grow, so
// being beyond it is not enough.
static bool holder_is_dead(const struct prefix_index *index, uint64_t who, uint64_t when,
                           uint32_t now_s)
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

static void leave_order(struct prefix_index *index, uint32_t id)
{
    struct granule *run = granule_at(&index->runs, id);
    *(run->newer != 0 ? &granule_at(&index->runs, run->newer)->older : &index->writer.newest) =
        run->older;
    *(run->older != 0 ? &granule_at(&index->runs, run->older)->newer : &index->writer.oldest) =
        run->newer;
}

// Behind `newer`, or as the newest of all when that is 0.
static void enter_order(struct prefix_index *index, uint32_t id, uint32_t newer)
{
    struct granule *run = granule_at(&index->runs, id);
    uint32_t *behind = newer != 0 ? &granule_at(&index->runs, newer)->older : &index->writer.newest;
    run->newer = newer;
    run->older = *behind;
    *behind = id;
    *(run->older != 0 ? &granule_at(&index->runs, run->older)->newer : &index->writer.oldest) = id;
}

static void index_free_run(struct prefix_index *index, uint32_t id)
{
    leave_order(index, id);
    prefix_runs_free(&index->runs, id);
}

static void become_newest(struct prefix_index *index, uint32_t id)
{
    if (index->writer.newest != id) {
        leave_order(index, id);
        enter_order(index, id, 0);
    }
}

// False when every run belongs to the current store.
static bool index_evict_oldest(struct prefix_runs *runs)
{
    struct prefix_index *index = index_of(runs);
    // Its runs move up when it is done, or here where one is met; no run is met twice.
    for (uint32_t tries = 0; tries <= index->writer.step_count + 1 && index->writer.oldest != 0;
         tries++) {
        if (granule_at(&index->runs, index->writer.oldest)->mark != index->writer.mark) {
            index_free_run(index, index->writer.oldest);
            count_by(&index->shared.evictions, 1);
            return true;
        }
        become_newest(index, index->writer.oldest);
    }
    return false;
}

static size_t in_lines(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

struct prefix_index *prefix_index_create(const struct prefix_limits *limits)
{
    ASSERT(limits->backend_count_max >= 1 && limits->backend_count_max <= UINT16_MAX);
    ASSERT((uintptr_t)limits->block % 64 == 0);
    size_t memory = limits->memory & ~(size_t)63;
    uint32_t step_max = (uint32_t)(memory / 256 < path_run_max ? memory / 256 : path_run_max);
    size_t backends_size = in_lines(limits->backend_count_max * sizeof(struct backend_state));
    size_t steps_size = in_lines(step_max * sizeof(struct store_step));
    size_t fixed = sizeof(struct prefix_index) + backends_size + steps_size;
    if (memory < fixed + prefix_runs_size_min()) {
        return NULL;
    }
    struct prefix_index *index = limits->block != NULL ? limits->block : aligned_alloc(64, memory);
    if (index == NULL) {
        return NULL;
    }
    char *block = (char *)index;
    *index = (struct prefix_index){
        .backends = (struct backend_state *)(void *)(block + sizeof(*index)),
        .steps = (struct store_step *)(void *)(block + sizeof(*index) + backends_size),
        .step_max = step_max,
        .ttl_s = limits->ttl_s,
        .is_lent = limits->block != NULL,
    };
    prefix_runs_init(&index->runs, block + fixed, memory - fixed, granule_count_max);
    index->runs.backend_count = limits->backend_count_max;
    index->runs.make_room = index_evict_oldest;
    for (uint32_t i = 0; i < limits->backend_count_max; i++) {
        index->backends[i] = (struct backend_state){
            .pace = pack(clock_first, clock_first - age_max), .epoch = epoch_first};
    }
    return index;
}

void prefix_index_destroy(struct prefix_index **index)
{
    if (*index != NULL && !(*index)->is_lent) {
        free(*index);
    }
    *index = NULL;
}

// Frees a few runs that are too old to be believed, with each store.  The oldest come first.
static void index_expire(struct prefix_index *index, uint32_t now_s)
{
    for (uint32_t i = 0; i < expiry_max && index->ttl_s != 0 && index->writer.oldest != 0; i++) {
        uint32_t stored_s = granule_at(&index->runs, index->writer.oldest)->stored_s;
        if ((int64_t)(int32_t)(now_s - stored_s) < (int64_t)index->ttl_s) {
            return;
        }
        index_free_run(index, index->writer.oldest);
        count_by(&index->shared.expiries, 1);
    }
}

// The backend's place among the holders of a run, or one for it.  NULL when memory is short.
static _Atomic uint64_t *holder_place(struct prefix_index *index, struct granule *run,
                                      uint32_t backend, uint32_t now_s)
{
    uint32_t chunk_count;
    _Atomic uint64_t *holder = find_place(&index->runs, run, backend, &chunk_count);
    if (holder != NULL) {
        return holder;
    }
    struct holder_cursor cursor = cursor_of_backend(&index->runs, run, backend);
    while ((holder = cursor_next(&cursor)) != NULL) {
        if (holder_is_dead(index, OWN(&holder[0]), OWN(&holder[1]), now_s)) {
            return holder;
        }
    }
    return prefix_runs_add_place(&index->runs, run, backend, chunk_count);
}

// Replaces a holder.  The place is empty in between: a reader never sees the time of one holder
// with the blocks of another.
static void put_holder(_Atomic uint64_t *holder, uint64_t who, uint64_t when)
{
    if (held_of(OWN(&holder[0])) != 0) {
        PUT(&holder[0], 0);
    }
    PUT(&holder[1], when);
    PUT(&holder[0], who);
}

// Cuts a run, which keeps its first `at` keys; the others get a run of their own.  Readers find
// the lower part either still here or already there.
static bool index_split_run(struct prefix_index *index, uint32_t id, uint32_t at, uint32_t now_s)
{
    struct granule *run = granule_at(&index->runs, id);
    uint64_t keys[run_key_max];
    uint32_t key_count = key_count_of(OWN(&run->shape)) - at;
    for (uint32_t i = 0; i < key_count; i++) {
        keys[i] = key_at(run, at + i);
    }
    uint32_t lower_id = prefix_runs_new(&index->runs, keys, key_count);
    if (lower_id == 0) {
        return false;
    }
    struct granule *lower = granule_at(&index->runs, lower_id);
    lower->stored_s = run->stored_s;
    lower->mark = index->writer.mark - 1;
    set_key_before(lower, key_tag(key_at(run, at - 1)));
    struct holder_cursor cursor = cursor_of_all(&index->runs, run);
    _Atomic uint64_t *holder;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        uint64_t when = OWN(&holder[1]);
        if (held_of(who) >> at == 0 || holder_is_dead(index, who, when, now_s)) {
            continue;
        }
        // Without memory for all of them some are forgotten.
        _Atomic uint64_t *place = holder_place(index, lower, backend_of(who), now_s);
        if (place != NULL) {
            put_holder(place,
                       make_who(backend_of(who), epoch_of(who), held_of(who) >> at,
                                confirmed_of(who) >> at),
                       when);
        }
    }
    enter_order(index, lower_id, id);
    prefix_runs_publish(&index->runs, lower_id);

    PUT(&run->shape, tag_of(key_at(run, 0)) | at);
    change_version(run);
    uint32_t kept = (1U << at) - 1;
    cursor = cursor_of_all(&index->runs, run);
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        PUT(&holder[0], make_who(backend_of(who), epoch_of(who), held_of(who) & kept,
                                 confirmed_of(who) & kept));
    }
    return true;
}

// The current store.
struct store {
    struct prefix_index *index;
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t backend;
    uint32_t block_tokens;
    uint32_t now_s;
    bool is_confirmed;
    bool is_expected;    // and so no longer confirmed
    bool is_merged;      // touched long ago; the clock stands
    uint64_t merged_at;  // then: clock and seconds
    uint32_t depth;      // keys done
    uint32_t new_blocks; // to this backend
    uint32_t open;       // the run that ends at `depth` and has room for more keys, or 0
};

// The end of a prompt ages before its prefix, but every touched block is above the floor.
static uint64_t store_touch_time(const struct store *store, uint32_t depth)
{
    if (store->is_merged) {
        return store->merged_at;
    }
    uint64_t pace = OWN(&store->index->backends[store->backend].pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    uint32_t room = clock - (uint32_t)pace;
    uint32_t age = room == 0 ? 0 : min_u32(depth * store->block_tokens, room - 1);
    return pack(clock - age, store->now_s);
}

// The backend holds the first keys of a run that begins at store->depth.  False: memory is short.
static bool store_hold(struct store *store, uint32_t id, uint32_t key_count)
{
    struct prefix_index *index = store->index;
    _Atomic uint64_t *holder =
        holder_place(index, granule_at(&index->runs, id), store->backend, store->now_s);
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
    confirmed = store->is_expected ? confirmed & ~mask : confirmed;
    uint64_t next =
        make_who(store->backend, epoch, held | mask, confirmed | (store->is_confirmed ? mask : 0));
    // The clock is not yet what it will be: finish_store() corrects the time.
    if (held != 0) {
        PUT(&holder[0], next);
    } else {
        put_holder(holder, next, store_touch_time(store, store->depth));
    }
    store->new_blocks += (uint32_t)__builtin_popcount(mask & ~held);
    index->steps[index->writer.step_count++] =
        (struct store_step){.holder = holder, .run = id, .depth = store->depth};
    return true;
}

// The run that ended here takes the next keys, which no other backend can hold.
static void store_extend_run(struct store *store)
{
    struct prefix_index *index = store->index;
    struct granule *run = granule_at(&index->runs, store->open);
    uint32_t first = key_count_of(OWN(&run->shape));
    uint32_t more = min_u32(run_key_max - first, store->key_count - store->depth);
    prefix_runs_write_keys(run, first, store->keys + store->depth, more);
    uint64_t mask = ((1U << more) - 1) << first;
    _Atomic uint64_t *holder = index->steps[index->writer.step_count - 1].holder;
    PUT(&holder[0], OWN(&holder[0]) | mask << 16 | (store->is_confirmed ? mask : 0));
    store->new_blocks += more;
    store->depth += more;
    store->open = 0;
}

// The next keys have a run of their own.  False when memory is short.
static bool store_begin_run(struct store *store)
{
    struct prefix_index *index = store->index;
    uint32_t key_count = min_u32(run_key_max, store->key_count - store->depth);
    uint32_t id = prefix_runs_new(&index->runs, store->keys + store->depth, key_count);
    if (id == 0) {
        return false;
    }
    granule_at(&index->runs, id)->mark = index->writer.mark;
    granule_at(&index->runs, id)->stored_s = store->now_s;
    set_key_before(granule_at(&index->runs, id),
                   store->depth > 0 ? key_tag(store->keys[store->depth - 1]) : 0);
    bool is_held = store_hold(store, id, key_count); // a run without holders has room for one
    ASSERT(is_held);
    enter_order(index, id, 0);
    prefix_runs_publish(&index->runs, id);
    store->depth += key_count;
    store->open = key_count < run_key_max ? id : 0;
    return true;
}

// The next key begins a known run.  False when memory is short.
static bool store_follow_run(struct store *store, uint32_t id)
{
    struct prefix_index *index = store->index;
    struct granule *run = granule_at(&index->runs, id);
    run->mark = index->writer.mark; // from here on it cannot be evicted
    uint32_t left = store->key_count - store->depth;
    uint32_t same = keys_in_common(run, 0, store->keys + store->depth,
                                   min_u32(key_count_of(OWN(&run->shape)), left));
    if (same < left && same < key_count_of(OWN(&run->shape)) &&
        !index_split_run(index, id, same, store->now_s)) {
        return false;
    }
    if (!store_hold(store, id, same)) {
        return false;
    }
    store->depth += same;
    store->open = same == key_count_of(OWN(&run->shape)) && same < run_key_max ? id : 0;
    return true;
}

static void store_settle_run(struct store *store, const struct store_step *step)
{
    granule_at(&store->index->runs, step->run)->stored_s = store->now_s;
    become_newest(store->index, step->run);
}

// A holder that was touched more recently keeps its time.
static void store_finish_merge(struct store *store)
{
    struct prefix_index *index = store->index;
    for (uint32_t i = index->writer.step_count; i-- > 0;) {
        struct store_step *step = &index->steps[i];
        uint64_t when = OWN(&step->holder[1]);
        if ((int32_t)((uint32_t)(store->merged_at >> 32) - (uint32_t)(when >> 32)) > 0) {
            PUT(&step->holder[1], store->merged_at);
        }
        store_settle_run(store, step);
    }
}

// The clock is known now.  From the last run to the first, so that a run is never older than those
// that go on from it (I4).
static void store_finish(struct store *store)
{
    struct prefix_index *index = store->index;
    struct backend_state *backend = &index->backends[store->backend];
    uint64_t pace = OWN(&backend->pace);
    uint32_t clock = (uint32_t)(pace >> 32) + store->new_blocks * store->block_tokens;
    uint32_t floor = (uint32_t)pace;
    floor = clock - floor > age_max ? clock - age_max : floor;
    PUT(&backend->pace, pack(clock, floor));
    for (uint32_t i = index->writer.step_count; i-- > 0;) {
        struct store_step *step = &index->steps[i];
        PUT(&step->holder[1], store_touch_time(store, step->depth));
        store_settle_run(store, step);
    }
}

static void store_follow_keys(struct store *store)
{
    struct prefix_index *index = store->index;
    index->writer.mark++;
    index->writer.step_count = 0;
    while (store->depth < store->key_count && index->writer.step_count < index->step_max) {
        uint32_t ahead = store->depth + run_key_max;
        if (ahead < store->key_count) {
            prefetch_bucket(&index->runs, store->keys[ahead]);
        }
        uint32_t id = find_own(&index->runs, store->keys[store->depth]);
        if (id != 0) {
            if (!store_follow_run(store, id)) {
                break;
            }
        } else if (store->open != 0) {
            store_extend_run(store);
        } else if (!store_begin_run(store)) {
            break;
        }
    }
}

void prefix_index_store(struct prefix_index *index, const struct prefix_span *span)
{
    struct store store = {
        .index = index,
        .keys = span->keys,
        .key_count = span->key_count,
        .backend = span->backend,
        .block_tokens = span->block_tokens > 0 ? span->block_tokens : 1,
        .now_s = span->now_s,
        .is_confirmed = span->residency == PREFIX_CONFIRMED,
        .is_expected = span->residency == PREFIX_EXPECTED,
    };
    ASSERT(span->backend < index->runs.backend_count);
    index_expire(index, span->now_s);
    store_follow_keys(&store);
    store_finish(&store);
}

void prefix_index_merge(struct prefix_index *index, const struct prefix_span *span, uint32_t age,
                        uint32_t age_s)
{
    ASSERT(span->backend < index->runs.backend_count);
    uint64_t pace = OWN(&index->backends[span->backend].pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    if (age >= clock - (uint32_t)pace || (index->ttl_s != 0 && age_s >= index->ttl_s)) {
        return;
    }
    struct store store = {
        .index = index,
        .keys = span->keys,
        .key_count = span->key_count,
        .backend = span->backend,
        .block_tokens = 1,
        .now_s = span->now_s,
        .is_confirmed = span->residency == PREFIX_CONFIRMED,
        .is_merged = true,
        .merged_at = pack(clock - age, span->now_s - age_s),
    };
    index_expire(index, span->now_s);
    store_follow_keys(&store);
    store_finish_merge(&store);
}

void prefix_index_drop(struct prefix_index *index, uint32_t backend,
                       enum prefix_residency residency, const uint64_t *keys, uint32_t key_count,
                       uint32_t from)
{
    ASSERT(backend < index->runs.backend_count);
    uint32_t depth = 0;
    while (depth < key_count) {
        uint32_t id = find_own(&index->runs, keys[depth]);
        if (id == 0) {
            return; // and so there is nothing further down (I4)
        }
        struct granule *run = granule_at(&index->runs, id);
        uint32_t same = keys_in_common(run, 0, keys + depth,
                                       min_u32(key_count_of(OWN(&run->shape)), key_count - depth));
        uint32_t first = from > depth ? from - depth : 0;
        _Atomic uint64_t *holder = first < same ? find_holder(&index->runs, run, backend) : NULL;
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
    ASSERT(backend < index->runs.backend_count);
    uint32_t epoch = OWN(&index->backends[backend].epoch) + 1;
    PUT(&index->backends[backend].epoch, epoch);
    if ((epoch & 0xffff) != 0) {
        return;
    }
    // Once in 65,536 times: holders of the first epoch would be believed again.
    for (uint32_t id = index->writer.newest; id != 0; id = granule_at(&index->runs, id)->older) {
        _Atomic uint64_t *holder = find_holder(&index->runs, granule_at(&index->runs, id), backend);
        if (holder != NULL) {
            PUT(&holder[0], 0);
        }
    }
}

void prefix_index_forget_older(struct prefix_index *index, uint32_t backend, uint32_t age)
{
    ASSERT(backend < index->runs.backend_count);
    uint64_t pace = OWN(&index->backends[backend].pace);
    uint32_t clock = (uint32_t)(pace >> 32);
    if (age < clock - (uint32_t)pace) {
        PUT(&index->backends[backend].pace, pack(clock, clock - age));
    }
}

void prefix_index_set_capacity(struct prefix_index *index, uint32_t backend, uint32_t tokens)
{
    ASSERT(backend < index->runs.backend_count);
    PUT(&index->backends[backend].capacity, tokens);
}

void prefix_index_usage(const struct prefix_index *index, struct prefix_usage *out)
{
    *out = (struct prefix_usage){
        .memory = SEE(&index->runs.shared.granules_used) * sizeof(struct granule),
        .run_count = SEE(&index->runs.shared.run_count),
        .evictions = SEE(&index->shared.evictions),
        .expiries = SEE(&index->shared.expiries),
    };
}
