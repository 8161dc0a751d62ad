// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/engine.h"

#include "base/base.h"
#include "sim/engine/kv_pool.h"

#include <stdlib.h>
#include <string.h>

struct engine {
    struct profile profile;
    struct engine_observer observer;
    struct kv_pool *pool;
    struct kv_pool *host;            // NULL: no second tier
    struct engine_request **running; // in the order of admission
    uint32_t running_count;
    uint32_t gap_count;        // of them, NULL: requests that left while a step was ending
    struct list_node *waiting; // first come first
    struct list_node **waiting_end;
    uint32_t waiting_count;
    bool is_ending; // inside engine_step_end
    struct engine_status status;
};

// A named block that is evicted moves to the host's memory, where the oldest makes room.
static void keep_on_host(struct engine *engine, uint32_t from, uint64_t key)
{
    uint32_t idle;
    uint32_t block;

    if (kv_pool_match(engine->host, &key, 1, &idle) == 1) {
        kv_pool_share(engine->host, &key, 1, &block);
    } else {
        kv_pool_take(engine->host, 1, &block);
        kv_pool_name(engine->host, &block, &key, 1);
        if (engine->observer.kept != NULL) {
            engine->observer.kept(engine->observer.owner, from, key);
        }
    }
    kv_pool_release(engine->host, &block, 1);
}

static void is_dropped(void *owner, [[maybe_unused]] uint32_t block, uint64_t key)
{
    const struct engine *engine = owner;

    if (engine->observer.dropped != NULL) {
        engine->observer.dropped(engine->observer.owner, key);
    }
}

static void is_evicted(void *owner, uint32_t block, uint64_t key)
{
    struct engine *engine = owner;

    if (engine->host != NULL) {
        keep_on_host(engine, block, key);
    }
    if (engine->observer.removed != NULL) {
        engine->observer.removed(engine->observer.owner, key);
    }
}

struct engine *engine_create(const struct profile *profile, const struct engine_observer *observer)
{
    uint32_t block_count = (uint32_t)(profile->kv_tokens / profile->block_tokens);
    uint32_t host_count = (uint32_t)(profile->host_tokens / profile->block_tokens);
    struct engine *engine = calloc(1, sizeof(*engine));

    ASSERT(block_count > 0 && profile->step_tokens > 0 && profile->sequences_max > 0);
    if (engine == NULL) {
        return NULL;
    }
    engine->profile = *profile;
    engine->observer = *observer;
    engine->waiting_end = &engine->waiting;
    engine->running = calloc(profile->sequences_max, sizeof(struct engine_request *));
    engine->pool = kv_pool_create(block_count, is_evicted, engine);
    engine->host = host_count > 0 ? kv_pool_create(host_count, is_dropped, engine) : NULL;
    if (engine->running == NULL || engine->pool == NULL ||
        (host_count > 0 && engine->host == NULL)) {
        engine_destroy(&engine);
    }
    return engine;
}

void engine_destroy(struct engine **engine_ptr)
{
    struct engine *engine = *engine_ptr;
    *engine_ptr = NULL;

    if (engine != NULL) {
        kv_pool_destroy(&engine->pool);
        kv_pool_destroy(&engine->host);
        free(engine->running);
        free(engine);
    }
}

uint32_t engine_blocks_of(const struct engine *engine, uint64_t tokens)
{
    return (uint32_t)((tokens + engine->profile.block_tokens - 1) / engine->profile.block_tokens);
}

bool engine_fits(const struct engine *engine, uint64_t prompt_tokens, uint64_t output_tokens)
{
    uint64_t most = engine->profile.context_max;
    return prompt_tokens <= most && output_tokens <= most - prompt_tokens &&
           engine_blocks_of(engine, prompt_tokens + output_tokens) <=
               kv_pool_block_count(engine->pool);
}

static void join_waiting(struct engine *engine, struct engine_request *request, bool in_front)
{
    struct list_node **link = in_front ? &engine->waiting : engine->waiting_end;

    list_push(link, &request->node);
    if (request->node.next == NULL) {
        engine->waiting_end = &request->node.next;
    }
    request->phase = ENGINE_WAITING;
    engine->waiting_count++;
}

static void leave_waiting(struct engine *engine, struct engine_request *request)
{
    if (engine->waiting_end == &request->node.next) {
        engine->waiting_end = request->node.link;
    }
    list_remove(&request->node);
    request->phase = ENGINE_NOWHERE;
    engine->waiting_count--;
}

void engine_submit(struct engine *engine, struct engine_request *request)
{
    ASSERT(request->prompt_tokens > 0 && request->output_tokens > 0);
    ASSERT(engine_fits(engine, request->prompt_tokens, request->output_tokens));
    ASSERT(request->phase == ENGINE_NOWHERE);

    request->cached_tokens = request->host_tokens = request->made_tokens = 0;
    request->computed = request->block_count = request->named_count = 0;
    request->preemptions = request->chunk = 0;
    request->node = (struct list_node){0};
    join_waiting(engine, request, false);
}

static void give_blocks_back(struct engine *engine, struct engine_request *request)
{
    kv_pool_release(engine->pool, request->blocks, request->block_count);
    request->block_count = 0;
    request->named_count = 0;
    request->computed = 0;
    request->chunk = 0;
}

static void leave_gap(struct engine *engine, uint32_t at)
{
    engine->running[at] = NULL;
    engine->gap_count++;
}

static void leave_running(struct engine *engine, struct engine_request *request)
{
    uint32_t at = 0;
    while (engine->running[at] != request) {
        at++;
    }
    request->phase = ENGINE_NOWHERE;
    if (engine->is_ending) {
        leave_gap(engine, at);
        return;
    }
    engine->running_count--;
    memmove(engine->running + at, engine->running + at + 1,
            (engine->running_count - at) * sizeof(struct engine_request *));
}

void engine_cancel(struct engine *engine, struct engine_request *request)
{
    if (request->phase == ENGINE_WAITING) {
        leave_waiting(engine, request);
    } else if (request->phase == ENGINE_RUNNING) {
        leave_running(engine, request);
        give_blocks_back(engine, request);
    }
}

struct engine_request *engine_any(const struct engine *engine)
{
    for (uint32_t i = engine->running_count; i-- > 0;) {
        if (engine->running[i] != NULL) {
            return engine->running[i];
        }
    }
    return engine->waiting == NULL ? NULL
                                   : CONTAINER_OF(engine->waiting, struct engine_request, node);
}

// The youngest running request gives up its blocks.
static struct engine_request *engine_preempt(struct engine *engine)
{
    struct engine_request *victim = engine->running[--engine->running_count];

    give_blocks_back(engine, victim);
    victim->preemptions++;
    engine->status.preemptions++;
    join_waiting(engine, victim, true);
    return victim;
}

// Blocks that `tokens` more need and the request does not have.
static uint32_t blocks_lacking(const struct engine *engine, const struct engine_request *request,
                               uint32_t tokens)
{
    return engine_blocks_of(engine, (uint64_t)request->computed + tokens) - request->block_count;
}

// Gives the request its part of the step; there are blocks enough.
static void engine_schedule(struct engine *engine, struct engine_request *request, uint32_t tokens)
{
    uint32_t lacking = blocks_lacking(engine, request, tokens);
    uint32_t whole = (request->computed + tokens) / engine->profile.block_tokens;
    uint32_t first = request->named_count;

    if (lacking > 0) {
        kv_pool_take(engine->pool, lacking, request->blocks + request->block_count);
        request->block_count += lacking;
    }
    request->chunk = tokens;
    whole = whole < request->key_count ? whole : request->key_count;
    if (whole > first) {
        kv_pool_name(engine->pool, request->blocks + first, request->keys + first, whole - first);
        request->named_count = whole;
        if (engine->observer.stored != NULL) {
            engine->observer.stored(engine->observer.owner, request, first, whole - first);
        }
    }
}

static uint32_t tokens_known(const struct engine_request *request)
{
    return request->prompt_tokens + request->made_tokens;
}

// One step while it is put together.
struct step_plan {
    struct step_work work;
    uint32_t budget;
    uint32_t decoding;
    uint64_t context_tokens;
    double fetch_ms;
    bool has_preempted;
};

static void plan_count(struct step_plan *plan, const struct engine *engine,
                       const struct engine_request *request, uint32_t tokens)
{
    plan->budget -= tokens;
    if (tokens == 1 && request->computed >= request->prompt_tokens) {
        plan->decoding++;
        plan->context_tokens += request->computed;
    } else {
        step_work_add_chunk(&plan->work, &engine->profile.step, request->computed, tokens);
    }
}

static void plan_running(struct engine *engine, struct step_plan *plan)
{
    for (uint32_t i = 0; i < engine->running_count; i++) {
        struct engine_request *request = engine->running[i];
        uint32_t tokens = tokens_known(request) - request->computed;
        tokens = tokens < plan->budget ? tokens : plan->budget;
        request->chunk = 0;
        if (tokens == 0) {
            continue;
        }
        while (blocks_lacking(engine, request, tokens) > kv_pool_free_count(engine->pool)) {
            plan->has_preempted = true;
            if (engine_preempt(engine) == request) {
                return; // it was the last one
            }
        }
        engine_schedule(engine, request, tokens);
        plan_count(plan, engine, request, tokens);
    }
}

// The part of a request that is cached.
struct cache_found {
    uint32_t blocks;      // on the GPU
    uint32_t idle;        // of them, free ones
    uint32_t host_blocks; // behind them, on the host
};

static struct cache_found engine_look_up(const struct engine *engine,
                                         const struct engine_request *request)
{
    struct cache_found found = {0};
    // The last token is computed in any case.
    uint32_t most = (tokens_known(request) - 1) / engine->profile.block_tokens;
    most = most < request->key_count ? most : request->key_count;

    if (request->reads_no_cache) {
        return found;
    }
    found.blocks = kv_pool_match(engine->pool, request->keys, most, &found.idle);
    if (engine->host != NULL) {
        uint32_t ignored;
        found.host_blocks = kv_pool_match(engine->host, request->keys + found.blocks,
                                          most - found.blocks, &ignored);
    }
    return found;
}

static void engine_start_request(struct engine *engine, struct engine_request *request,
                                 const struct cache_found *found)
{
    uint32_t block_tokens = engine->profile.block_tokens;
    uint32_t hit_tokens = (found->blocks + found->host_blocks) * block_tokens;

    leave_waiting(engine, request);
    request->phase = ENGINE_RUNNING;
    engine->running[engine->running_count++] = request;
    kv_pool_share(engine->pool, request->keys, found->blocks, request->blocks);
    request->block_count = request->named_count = found->blocks;
    request->computed = found->blocks * block_tokens;
    if (found->host_blocks > 0) {
        engine_schedule(engine, request, found->host_blocks * block_tokens);
        request->computed = hit_tokens;
    }
    if (request->preemptions == 0) {
        request->cached_tokens = hit_tokens;
        request->host_tokens = found->host_blocks * block_tokens;
        engine->status.query_tokens += request->prompt_tokens;
        engine->status.hit_tokens += hit_tokens;
        engine->status.prompt_tokens += request->prompt_tokens;
    }
}

static void plan_waiting(struct engine *engine, struct step_plan *plan)
{
    while (engine->waiting != NULL && plan->budget > 0 &&
           engine->running_count < engine->profile.sequences_max) {
        struct engine_request *request = CONTAINER_OF(engine->waiting, struct engine_request, node);
        struct cache_found found = engine_look_up(engine, request);
        uint32_t needed = engine_blocks_of(engine, tokens_known(request)) - found.blocks;
        if (needed + found.idle > kv_pool_free_count(engine->pool)) {
            return; // and those behind it wait for it
        }
        engine_start_request(engine, request, &found);
        uint32_t tokens = tokens_known(request) - request->computed;
        tokens = tokens < plan->budget ? tokens : plan->budget;
        plan->fetch_ms += (double)found.host_blocks * engine->profile.block_tokens *
                          engine->profile.host_token_ms;
        engine_schedule(engine, request, tokens);
        plan_count(plan, engine, request, tokens);
    }
}

double engine_step(struct engine *engine)
{
    struct step_plan plan = {.budget = engine->profile.step_tokens};

    ASSERT(!engine->is_ending);
    plan_running(engine, &plan);
    if (!plan.has_preempted) {
        plan_waiting(engine, &plan);
    }
    if (engine->running_count == 0) {
        return 0;
    }
    step_work_add_decode(&plan.work, &engine->profile.step, plan.decoding, plan.context_tokens);
    double ms = step_ms(&plan.work, &engine->profile.step) + plan.fetch_ms;
    engine->status.step_count++;
    engine->status.busy_ms += ms;
    return ms;
}

static void engine_close_gaps(struct engine *engine)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < engine->running_count; i++) {
        if (engine->running[i] != NULL) {
            engine->running[kept++] = engine->running[i];
        }
    }
    engine->running_count = kept;
    engine->gap_count = 0;
}

void engine_step_end(struct engine *engine)
{
    engine->is_ending = true;
    for (uint32_t i = 0; i < engine->running_count; i++) {
        struct engine_request *request = engine->running[i];
        if (request == NULL || request->chunk == 0) {
            continue;
        }
        request->computed += request->chunk;
        request->chunk = 0;
        if (request->computed < tokens_known(request)) {
            continue;
        }
        request->made_tokens++;
        engine->status.output_tokens++;
        bool is_last = request->made_tokens == request->output_tokens;
        if (is_last) {
            leave_gap(engine, i);
            request->phase = ENGINE_NOWHERE;
            give_blocks_back(engine, request);
        }
        if (engine->observer.token != NULL) {
            engine->observer.token(engine->observer.owner, request, is_last);
        }
    }
    engine->is_ending = false;
    if (engine->gap_count > 0) {
        engine_close_gaps(engine);
    }
}

void engine_flush(struct engine *engine)
{
    kv_pool_clear(engine->pool);
    if (engine->host != NULL) {
        kv_pool_evict_free(engine->host); // which is all of it
    }
    if (engine->observer.cleared != NULL) {
        engine->observer.cleared(engine->observer.owner);
    }
}

void engine_status(const struct engine *engine, struct engine_status *out)
{
    uint32_t used = kv_pool_block_count(engine->pool) - kv_pool_free_count(engine->pool);

    *out = engine->status;
    out->running = engine->running_count - engine->gap_count;
    out->waiting = engine->waiting_count;
    out->used_tokens = (uint64_t)used * engine->profile.block_tokens;
    out->kv_tokens = (uint64_t)kv_pool_block_count(engine->pool) * engine->profile.block_tokens;
}
