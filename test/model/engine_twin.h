// SPDX-License-Identifier: Apache-2.0
//
// engine_twin.h -- an engine in the simplest form: arrays that are searched from end to end,
// after the scheduler of vLLM.  It records the events that it would publish.
#pragma once

#include "sim/engine/engine.h"
#include "test.h"

enum { slot_count = 10, block_max = 48, event_max = 4096 };

enum event_kind { TOKEN, LAST_TOKEN, STORED, REMOVED, CLEARED, KEPT, DROPPED };

struct event {
    enum event_kind kind;
    uint64_t subject; // the number of the request, or the key
    uint32_t first;
    uint32_t count;
};

struct events {
    uint32_t count;
    struct event list[event_max];
};

static void note(struct events *events, struct event event)
{
    ASSERT(events->count < event_max);
    events->list[events->count++] = event;
}

// The twin's own view of a request.
struct twin_request {
    const struct engine_request *asked;
    uint32_t computed;
    uint32_t made;
    uint32_t cached;
    uint32_t host;
    uint32_t chunk;
    uint32_t preemptions;
    uint32_t block_count;
    uint32_t named_count;
    uint32_t blocks[block_max];
};

struct cell {
    uint64_t key;
    uint32_t named_at; // 0: it has no name
    uint32_t users;
};

struct queue {
    uint32_t count;
    uint32_t items[block_max];
};

struct twin {
    const struct profile *profile;
    struct cell cells[block_max];
    uint32_t cell_count;
    uint32_t host_count;
    uint32_t clock;
    struct queue free;    // blocks, the first to be taken first
    struct queue running; // numbers of requests
    struct queue waiting;
    uint64_t host[block_max]; // keys, the oldest first
    uint32_t host_used;
    struct twin_request requests[slot_count];
    struct events events;
    struct engine_status status;
};

static void insert_at(struct queue *queue, uint32_t at, uint32_t item)
{
    ASSERT(queue->count < block_max);
    for (uint32_t i = queue->count; i > at; i--) {
        queue->items[i] = queue->items[i - 1];
    }
    queue->items[at] = item;
    queue->count++;
}

static bool remove_item(struct queue *queue, uint32_t item)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->items[i] == item) {
            for (uint32_t k = i + 1; k < queue->count; k++) {
                queue->items[k - 1] = queue->items[k];
            }
            queue->count--;
            return true;
        }
    }
    return false;
}

static bool has_item(const struct queue *queue, uint32_t item)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->items[i] == item) {
            return true;
        }
    }
    return false;
}

// The block that has had the name for the longest time; block_max: none.
static uint32_t twin_find(const struct twin *twin, uint64_t key)
{
    uint32_t best = block_max;
    for (uint32_t i = 0; i < twin->cell_count; i++) {
        const struct cell *cell = &twin->cells[i];
        if (cell->named_at > 0 && cell->key == key &&
            (best == block_max || cell->named_at < twin->cells[best].named_at)) {
            best = i;
        }
    }
    return best;
}

static uint32_t host_find(const struct twin *twin, uint64_t key)
{
    uint32_t at = 0;
    while (at < twin->host_used && twin->host[at] != key) {
        at++;
    }
    return at;
}

static void host_keep(struct twin *twin, uint32_t block, uint64_t key)
{
    uint32_t at = host_find(twin, key);
    bool is_new = at == twin->host_used;
    if (is_new && twin->host_used < twin->host_count) {
        twin->host_used++;
    } else if (is_new) {
        at = 0;
        note(&twin->events, (struct event){.kind = DROPPED, .subject = twin->host[0]});
    }
    if (is_new) {
        note(&twin->events, (struct event){.kind = KEPT, .subject = key, .first = block});
    }
    for (; at + 1 < twin->host_used; at++) {
        twin->host[at] = twin->host[at + 1];
    }
    twin->host[twin->host_used - 1] = key;
}

static uint32_t twin_take(struct twin *twin)
{
    uint32_t block = twin->free.items[0];
    struct cell *cell = &twin->cells[block];

    remove_item(&twin->free, block);
    if (cell->named_at > 0) {
        if (twin->host_count > 0) {
            host_keep(twin, block, cell->key);
        }
        note(&twin->events, (struct event){.kind = REMOVED, .subject = cell->key});
    }
    cell->named_at = 0;
    cell->users = 1;
    return block;
}

static void twin_release(struct twin *twin, struct twin_request *request)
{
    for (uint32_t i = request->block_count; i-- > 0;) {
        struct cell *cell = &twin->cells[request->blocks[i]];
        cell->users--;
        if (cell->users == 0) {
            insert_at(&twin->free, cell->named_at > 0 ? twin->free.count : 0, request->blocks[i]);
        }
    }
    request->block_count = request->named_count = request->computed = request->chunk = 0;
}

static uint32_t round_up(const struct twin *twin, uint32_t tokens)
{
    uint32_t blocks = 0;
    while (blocks * twin->profile->block_tokens < tokens) {
        blocks++;
    }
    return blocks;
}

static uint32_t known(const struct twin_request *request)
{
    return request->asked->prompt_tokens + request->made;
}

// False: there are not blocks enough.
static bool twin_alloc(struct twin *twin, uint32_t number, uint32_t tokens)
{
    struct twin_request *request = &twin->requests[number];
    uint32_t end = request->computed + tokens;
    uint32_t first = request->named_count;

    if (round_up(twin, end) > request->block_count + twin->free.count) {
        return false;
    }
    while (request->block_count < round_up(twin, end)) {
        request->blocks[request->block_count++] = twin_take(twin);
    }
    while ((request->named_count + 1) * twin->profile->block_tokens <= end &&
           request->named_count < request->asked->key_count) {
        struct cell *cell = &twin->cells[request->blocks[request->named_count]];
        cell->key = request->asked->keys[request->named_count++];
        cell->named_at = ++twin->clock;
    }
    if (request->named_count > first) {
        note(&twin->events, (struct event){.kind = STORED,
                                           .subject = number,
                                           .first = first,
                                           .count = request->named_count - first});
    }
    request->chunk = tokens;
    return true;
}

static void twin_count(const struct twin *twin, const struct twin_request *request,
                       struct step_work *work)
{
    const struct step_model *model = &twin->profile->step;
    if (request->chunk == 1 && request->computed >= request->asked->prompt_tokens) {
        step_work_add_decode(work, model, 1, request->computed);
    } else {
        step_work_add_chunk(work, model, request->computed, request->chunk);
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// False: a request was preempted.
static bool twin_run_running(struct twin *twin, uint32_t *budget, struct step_work *work)
{
    uint64_t before = twin->status.preemptions;
    for (uint32_t i = 0; i < twin->running.count; i++) {
        uint32_t number = twin->running.items[i];
        struct twin_request *request = &twin->requests[number];
        uint32_t tokens = least(known(request) - request->computed, *budget);
        bool is_there = true;
        while (is_there && !twin_alloc(twin, number, tokens)) {
            uint32_t victim = twin->running.items[twin->running.count - 1];
            remove_item(&twin->running, victim);
            insert_at(&twin->waiting, 0, victim);
            twin_release(twin, &twin->requests[victim]);
            twin->requests[victim].preemptions++;
            twin->status.preemptions++;
            is_there = victim != number;
        }
        if (!is_there) {
            break;
        }
        *budget -= tokens;
        twin_count(twin, request, work);
    }
    return twin->status.preemptions == before;
}

// How much of the request is cached: blocks on the GPU, and behind them on the host.  The last
// token must be computed.
static void twin_look_up(const struct twin *twin, const struct twin_request *request,
                         uint32_t *blocks, uint32_t *host_blocks)
{
    const struct engine_request *asked = request->asked;
    uint32_t most = least((known(request) - 1) / twin->profile->block_tokens, asked->key_count);

    *blocks = *host_blocks = 0;
    if (asked->reads_no_cache) {
        return;
    }
    while (*blocks < most && twin_find(twin, asked->keys[*blocks]) != block_max) {
        ++*blocks;
    }
    while (*blocks + *host_blocks < most &&
           host_find(twin, asked->keys[*blocks + *host_blocks]) < twin->host_used) {
        ++*host_blocks;
    }
}

static void twin_admit(struct twin *twin, uint32_t number, uint32_t blocks, uint32_t host_blocks)
{
    struct twin_request *request = &twin->requests[number];
    uint32_t block_tokens = twin->profile->block_tokens;

    remove_item(&twin->waiting, number);
    insert_at(&twin->running, twin->running.count, number);
    for (uint32_t i = 0; i < blocks; i++) {
        request->blocks[i] = twin_find(twin, request->asked->keys[i]);
        remove_item(&twin->free, request->blocks[i]);
        twin->cells[request->blocks[i]].users++;
    }
    request->block_count = request->named_count = blocks;
    request->computed = blocks * block_tokens;
    ASSERT(twin_alloc(twin, number, host_blocks * block_tokens));
    request->computed += host_blocks * block_tokens;
    if (request->preemptions == 0) {
        request->cached = request->computed;
        request->host = host_blocks * block_tokens;
        twin->status.query_tokens += request->asked->prompt_tokens;
        twin->status.prompt_tokens += request->asked->prompt_tokens;
        twin->status.hit_tokens += request->computed;
    }
}

static uint32_t count_idle(const struct twin *twin, const uint64_t *keys, uint32_t count)
{
    uint32_t idle = 0;
    for (uint32_t i = 0; i < count; i++) {
        idle += twin->cells[twin_find(twin, keys[i])].users == 0;
    }
    return idle;
}

// Returns what the host takes.
static double twin_run_waiting(struct twin *twin, uint32_t budget, struct step_work *work)
{
    double fetch_ms = 0;
    while (twin->waiting.count > 0 && budget > 0 &&
           twin->running.count < twin->profile->sequences_max) {
        uint32_t number = twin->waiting.items[0];
        struct twin_request *request = &twin->requests[number];
        uint32_t blocks;
        uint32_t host_blocks;
        twin_look_up(twin, request, &blocks, &host_blocks);
        uint32_t needed = round_up(twin, known(request)) - blocks +
                          count_idle(twin, request->asked->keys, blocks);
        if (needed > twin->free.count) {
            break;
        }
        twin_admit(twin, number, blocks, host_blocks);
        fetch_ms += host_blocks * twin->profile->block_tokens * twin->profile->host_token_ms;
        uint32_t tokens = least(known(request) - request->computed, budget);
        ASSERT(twin_alloc(twin, number, tokens));
        budget -= tokens;
        twin_count(twin, request, work);
    }
    return fetch_ms;
}

static double twin_step(struct twin *twin)
{
    struct step_work work = {0};
    uint32_t budget = twin->profile->step_tokens;
    double fetch_ms = 0;

    if (twin_run_running(twin, &budget, &work)) {
        fetch_ms = twin_run_waiting(twin, budget, &work);
    }
    if (twin->running.count == 0) {
        return 0;
    }
    double ms = step_ms(&work, &twin->profile->step) + fetch_ms;
    twin->status.step_count++;
    twin->status.busy_ms += ms;
    return ms;
}

static void twin_submit(struct twin *twin, uint32_t number, const struct engine_request *asked)
{
    twin->requests[number] = (struct twin_request){.asked = asked};
    insert_at(&twin->waiting, twin->waiting.count, number);
}

static void twin_cancel(struct twin *twin, uint32_t number)
{
    remove_item(&twin->waiting, number);
    if (remove_item(&twin->running, number)) {
        twin_release(twin, &twin->requests[number]);
    }
}

static void twin_flush(struct twin *twin)
{
    for (uint32_t i = 0; i < twin->cell_count; i++) {
        twin->cells[i].named_at = 0;
    }
    for (uint32_t i = 0; i < twin->host_used; i++) {
        note(&twin->events, (struct event){.kind = DROPPED, .subject = twin->host[i]});
    }
    twin->host_used = 0;
    note(&twin->events, (struct event){.kind = CLEARED});
}
