// SPDX-License-Identifier: Apache-2.0

#include "replica/projection.h"

#include "base/base.h"
#include "base/rng.h"
#include "replica/replica.h"

#include <stdlib.h>
#include <string.h>

enum {
    predicted_keys_max = 2048, // of an open prediction: the rest is left to its confirmation
    note_delay_max_ms = 1000,
};

static void project(const struct projection *projection, const struct shared_backend *backend,
                    struct prefix_update update)
{
    if (backend->slot != no_slot) {
        update.backend = backend->slot;
        update.now_s = (uint32_t)(projection->now_ms / 1000);
        projection->sink->apply(projection->owner, &update);
    }
}

static void put_back(const struct projection *projection, const struct shared_backend *backend,
                     const struct open_prediction *prediction)
{
    project(projection, backend,
            (struct prefix_update){.verb = PREFIX_STORE,
                                   .residency =
                                       prediction->is_expected ? PREFIX_EXPECTED : PREFIX_PREDICTED,
                                   .block_tokens = prediction->block_tokens,
                                   .keys = prediction->keys,
                                   .key_count = prediction->key_count});
}

// Leading blocks of the chain that the index has of the backend.
static uint32_t held_blocks(const struct projection *projection,
                            const struct shared_backend *backend, const uint64_t *keys,
                            uint32_t key_count)
{
    uint32_t count = prefix_index_match(projection->index, keys, key_count,
                                        (uint32_t)(projection->now_ms / 1000), projection->hits,
                                        projection->hit_max);
    for (uint32_t i = 0; i < count; i++) {
        if (projection->hits[i].backend == backend->slot) {
            return projection->hits[i].blocks;
        }
    }
    return 0;
}

// How many keys the two begin with, if they agree in the first `known` ones: a key stands for all
// before it.
static uint32_t keys_in_common(const struct open_prediction *a, const struct open_prediction *b,
                               uint32_t known)
{
    while (known < a->key_count && known < b->key_count && a->keys[known] == b->keys[known]) {
        known++;
    }
    return known;
}

// Takes the unconfirmed blocks of an ended prediction from the index, all of them: its router may
// have left out those that another prediction had put there.  Then puts back those that another one
// needs: the one that goes the same way for longest has them all.
static void take_back(const struct projection *projection, const struct open_prediction *ended)
{
    const struct shared_backend *backend = projection_find(projection, ended->backend);
    if (backend == NULL || backend->life.era != ended->era || backend->slot == no_slot) {
        return;
    }
    project(projection, backend,
            (struct prefix_update){.verb = PREFIX_DROP,
                                   .residency = PREFIX_PREDICTED,
                                   .keys = ended->keys,
                                   .key_count = ended->key_count});
    uint32_t left = held_blocks(projection, backend, ended->keys, ended->key_count);
    struct open_prediction longest = {.key_count = left};
    uint64_t position = 0;
    const struct open_prediction *other;
    while (longest.key_count < ended->key_count &&
           (other = open_table_next(&projection->open, &position)) != NULL) {
        if (other->backend == ended->backend && other->era == ended->era &&
            keys_in_common(other, ended, longest.key_count) > longest.key_count) {
            uint32_t key_count = keys_in_common(other, ended, longest.key_count);
            longest = *other;
            longest.key_count = key_count;
        }
    }
    if (longest.key_count > left) {
        put_back(projection, backend, &longest);
    }
}

static void projection_expired(void *owner, const struct open_prediction *prediction)
{
    take_back(owner, prediction);
}

bool projection_open(struct projection *projection, const struct projection_limits *limits)
{
    uint32_t places = 16;
    while (places < 2 * limits->backend_max) {
        places *= 2;
    }
    *projection = (struct projection){
        .backends = calloc(places, sizeof(struct shared_backend)),
        .backend_mask = places - 1,
        .backend_max = limits->backend_max,
        .index = limits->index,
        .hits = calloc(limits->slot_max, sizeof(struct prefix_hit)),
        .hit_max = limits->slot_max,
    };
    bool is_open = projection->backends != NULL && projection->hits != NULL &&
                   open_table_open(&projection->open, limits->open_max, limits->open_max * 32,
                                   projection_expired, projection) &&
                   session_table_open(&projection->sessions, limits->session_max);
    if (!is_open) {
        projection_close(projection);
    }
    return is_open;
}

void projection_close(struct projection *projection)
{
    free(projection->backends);
    free(projection->hits);
    open_table_close(&projection->open);
    session_table_close(&projection->sessions);
    *projection = (struct projection){0};
}

static struct shared_backend *backend_place(const struct projection *projection, uint64_t identity)
{
    uint32_t at = (uint32_t)rng_mix(identity) & projection->backend_mask;
    while (projection->backends[at].identity != 0 &&
           projection->backends[at].identity != identity) {
        at = (at + 1) & projection->backend_mask;
    }
    return &projection->backends[at];
}

struct shared_backend *projection_find(const struct projection *projection, uint64_t identity)
{
    struct shared_backend *backend = backend_place(projection, identity);
    return backend->identity != 0 ? backend : NULL;
}

struct shared_backend *projection_add(struct projection *projection, uint64_t identity)
{
    struct shared_backend *backend = backend_place(projection, identity);
    if (backend->identity == 0 && identity != 0 &&
        projection->backend_count < projection->backend_max) {
        *backend = (struct shared_backend){.identity = identity, .slot = no_slot};
        projection->backend_count++;
    }
    return backend->identity != 0 ? backend : NULL;
}

bool projection_compact(struct projection *projection, uint32_t *places)
{
    struct shared_backend *former = projection->backends;
    uint32_t place_count = projection->backend_mask + 1;
    struct shared_backend *backends = calloc(place_count, sizeof(*backends));
    if (backends == NULL) {
        return false;
    }
    projection->backends = backends;
    projection->backend_count = 0;
    memset(places, 0xff, place_count * sizeof(places[0]));
    for (uint32_t i = 0; i < place_count; i++) {
        if (former[i].identity != 0 && former[i].slot != no_slot) {
            struct shared_backend *backend = backend_place(projection, former[i].identity);
            *backend = former[i];
            projection->backend_count++;
            places[backend - backends] = i;
        }
    }
    free(former);
    return true;
}

static void end_earlier_predictions(struct projection *projection,
                                    const struct shared_backend *backend)
{
    uint64_t position = 0;
    const struct open_prediction *prediction;
    struct open_prediction ended;
    while ((prediction = open_table_next(&projection->open, &position)) != NULL) {
        if (prediction->backend == backend->identity && prediction->era != backend->life.era) {
            (void)open_table_end(&projection->open, prediction->router, prediction->number, &ended);
        }
    }
}

void projection_follow(struct projection *projection, struct shared_backend *backend,
                       enum life_verdict verdict)
{
    if (verdict == LIFE_ENDED) {
        projection->eras++;
        backend->settings[SETTING_CAPACITY] = (struct record_setting){0};
        end_earlier_predictions(projection, backend);
        project(projection, backend, (struct prefix_update){.verb = PREFIX_FORGET});
    }
    if (verdict != LIFE_GOES_ON) {
        backend->is_stale = verdict == LIFE_REJOINED;
        backend->stale_snapshots = 0;
        projection->is_behind |= backend->is_stale;
    }
}

// While this router does not know whether the life goes on, it believes nothing of it.
static bool believes(const struct shared_backend *backend)
{
    return !backend->life.is_out;
}

// Our workers change the index before their notes come.  If a life ended in between, the index has
// forgotten what the note tells.
static bool is_in_index(const struct projection *projection, const struct shared_backend *backend,
                        bool is_own)
{
    bool has_just_moved = backend->life.moved_ms != 0 &&
                          projection->now_ms < backend->life.moved_ms + note_delay_max_ms;
    return is_own && !has_just_moved;
}

static uint32_t bounded(uint32_t key_count)
{
    return key_count < prefix_update_keys_max ? key_count : prefix_update_keys_max;
}

void projection_predict(struct projection *projection, uint64_t router,
                        const struct shared_backend *backend, const struct frame_record *record,
                        bool is_own)
{
    uint32_t key_count =
        record->key_count < predicted_keys_max ? record->key_count : predicted_keys_max;
    struct open_prediction prediction = {
        .router = router,
        .number = record->number,
        .backend = backend->identity,
        .era = backend->life.era,
        .since_ms = projection->now_ms,
        .block_tokens = record->block_tokens,
        .is_expected = record->kind == RECORD_EXPECT,
        .keys = record->keys,
        .key_count = key_count,
    };
    if (record->number == 0 || key_count == 0 || !believes(backend)) {
        return;
    }
    open_table_add(&projection->open, &prediction);
    if (!is_in_index(projection, backend, is_own)) {
        put_back(projection, backend, &prediction);
    }
}

void projection_confirm(struct projection *projection, uint64_t router,
                        const struct shared_backend *backend, const struct frame_record *record,
                        bool is_own)
{
    struct open_prediction ended;
    bool has_ended =
        record->number != 0 && open_table_end(&projection->open, router, record->number, &ended);
    if (!is_in_index(projection, backend, is_own) && believes(backend) && record->key_count > 0) {
        project(projection, backend,
                (struct prefix_update){.verb = PREFIX_STORE,
                                       .residency = PREFIX_CONFIRMED,
                                       .block_tokens = record->block_tokens,
                                       .keys = record->keys,
                                       .key_count = bounded(record->key_count)});
    }
    // A chain that lost its end on the way, or another backend than predicted.
    if (has_ended && !is_own &&
        (record->key_count < ended.key_count || ended.backend != backend->identity)) {
        take_back(projection, &ended);
    }
}

void projection_withdraw(struct projection *projection, uint64_t router, uint64_t number)
{
    struct open_prediction ended;
    if (open_table_end(&projection->open, router, number, &ended)) {
        take_back(projection, &ended);
    }
}

// Those of the router that began and were last told of before these moments.
static void withdraw_older(struct projection *projection, uint64_t router, uint64_t since_ms,
                           uint64_t told_ms)
{
    uint64_t position = 0;
    const struct open_prediction *prediction;
    while ((prediction = open_table_next(&projection->open, &position)) != NULL) {
        if (prediction->router == router && prediction->since_ms < since_ms &&
            prediction->told_ms < told_ms) {
            projection_withdraw(projection, router, prediction->number);
        }
    }
}

void projection_withdraw_all(struct projection *projection, uint64_t router)
{
    withdraw_older(projection, router, UINT64_MAX, UINT64_MAX);
}

void projection_keep_open(struct projection *projection, uint64_t router, const uint64_t *numbers,
                          uint32_t count)
{
    uint64_t now_ms = projection->now_ms;
    for (uint32_t i = 0; i < count; i++) {
        open_table_tell(&projection->open, router, numbers[i], now_ms);
    }
    uint64_t settled_ms = UINT64_C(2) * frame_open_ms;
    withdraw_older(projection, router, now_ms > settled_ms ? now_ms - settled_ms : 0, now_ms);
}

void projection_hold(struct projection *projection, const struct shared_backend *backend,
                     const struct frame_record *record)
{
    if (believes(backend) && record->key_count > 0) {
        project(projection, backend,
                (struct prefix_update){.verb = PREFIX_MERGE,
                                       .residency = PREFIX_CONFIRMED,
                                       .age = record->age,
                                       .age_s = record->age_s,
                                       .keys = record->keys,
                                       .key_count = bounded(record->key_count)});
    }
}

void projection_evict(struct projection *projection, const struct shared_backend *backend,
                      uint32_t age)
{
    project(projection, backend, (struct prefix_update){.verb = PREFIX_FORGET_OLDER, .age = age});
}

static void project_session(struct projection *projection, const struct shared_backend *backend,
                            uint64_t key, uint64_t before)
{
    const struct shared_backend *former =
        before != 0 && before != backend->identity ? projection_find(projection, before) : NULL;
    if (former != NULL) {
        project(
            projection, former,
            (struct prefix_update){
                .verb = PREFIX_DROP, .residency = PREFIX_PREDICTED, .keys = &key, .key_count = 1});
    }
    project(projection, backend,
            (struct prefix_update){.verb = PREFIX_STORE,
                                   .residency = PREFIX_PREDICTED,
                                   .block_tokens = 1,
                                   .keys = &key,
                                   .key_count = 1});
}

// A stamp for a word from here, or the checked stamp of one from elsewhere; 0: no router stamps so.
static uint64_t heard_stamp(struct projection *projection, uint64_t stamp)
{
    if (stamp == 0) {
        return hybrid_clock_stamp(&projection->clock, projection->wall_ms);
    }
    return hybrid_clock_hear(&projection->clock, stamp, projection->wall_ms) ? stamp : 0;
}

uint64_t projection_move_session(struct projection *projection,
                                 const struct shared_backend *backend, uint64_t key, uint64_t stamp)
{
    bool is_own = stamp == 0;
    uint64_t before;
    stamp = heard_stamp(projection, stamp);
    struct shared_session session = {.key = key, .stamp = stamp, .backend = backend->identity};
    if (stamp == 0 || !session_table_move(&projection->sessions, &session, &before)) {
        return 0;
    }
    // Our worker has moved it already, but from where the index had it then.
    if (!is_own || before != backend->identity) {
        project_session(projection, backend, key, before);
    }
    return stamp;
}

// The value decides between two words with one stamp, so that all routers decide alike.
static bool is_later_setting(const struct record_setting *a, const struct record_setting *b)
{
    return a->stamp != b->stamp ? a->stamp > b->stamp : a->value > b->value;
}

uint64_t projection_set(struct projection *projection, struct shared_backend *backend,
                        const struct record_setting *setting)
{
    bool is_own = setting->stamp == 0;
    struct record_setting *known = &backend->settings[setting->field];
    struct record_setting next = *setting;
    next.stamp = heard_stamp(projection, setting->stamp);
    if (next.stamp == 0 || !is_later_setting(&next, known)) {
        return 0;
    }
    bool is_new = known->stamp == 0 || known->value != next.value;
    *known = next;
    if (!is_own && is_new && backend->slot != no_slot) {
        projection->sink->setting(projection->owner, backend->slot, next.field, next.value);
    }
    return next.stamp;
}

void projection_tell_settings(const struct projection *projection,
                              const struct shared_backend *backend)
{
    for (uint32_t i = 0; i < SETTING_COUNT; i++) {
        const struct record_setting *setting = &backend->settings[i];
        if (setting->stamp != 0) {
            projection->sink->setting(projection->owner, backend->slot, setting->field,
                                      setting->value);
        }
    }
}
