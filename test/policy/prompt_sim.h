// SPDX-License-Identifier: Apache-2.0
//
// prompt_sim.h -- a small fleet of made-up engines, to watch a policy at work.
//
// An engine computes prompts one after the other, at the speed of base/prefill_curve.h and slower while
// it decodes; decoding runs beside it and holds a place until it is done.  Its cache forgets what was
// used longest ago.  The router side is the real one: struct load and struct traffic, with speeds that
// are learned and not told.  Time is a number, chance is a seed.
#pragma once

#include "base/base.h"
#include "base/prefill_curve.h"
#include "base/rng.h"
#include "fleet/load.h"
#include "fleet/traffic.h"
#include "policy/fleet_fixture.h"
#include "policy/policy.h"

#include <math.h>
#include <stdlib.h>

enum {
    sim_engine_max = 64,
    sim_entry_max = 4096,
    sim_request_max = 20000,
    sim_flight_max = 20000,
    sim_session_max = 1024,
};

struct sim_cache {
    uint64_t ids[sim_entry_max];
    uint32_t sizes[sim_entry_max];
    uint64_t used[sim_entry_max];
    uint32_t count;
    uint64_t size;
    uint64_t capacity;
    uint64_t turn;
};

struct sim_engine {
    struct load load;
    double slowness; // 1: as shipped
    double free_ms;  // when its last prompt is computed
    double work_ms;  // given to it so far
    struct sim_cache cache;
    uint32_t requests;
};

struct sim_flight {
    struct load_request request;
    double sent_ms, first_ms, end_ms;
    uint32_t engine, output;
    bool is_counted;
};

// One prompt: what it shares with its group, what it has of a conversation, and what is new.
struct sim_prompt {
    uint64_t group;   // 0: none
    uint64_t session; // its own when it is not a conversation
    uint32_t shared, history, own;
};

// What a run is about.
struct sim_plan {
    uint32_t engines;
    uint32_t requests;
    uint32_t warm_up;       // requests not counted
    double per_second;      // arrivals, of the whole fleet
    uint32_t groups;        // of prompts that share their beginning; 0: none
    uint32_t group_percent; // of the requests; the rest are unlike all others
    uint32_t shared, own;   // tokens
    uint32_t output;
    uint32_t sessions;     // conversations at a time; 0: none
    uint32_t turns;        // of each
    uint64_t cache_tokens; // of each engine
    bool tells_memory;     // the engine reports capacity and usage
    double slowness[sim_engine_max];
    uint32_t weights[sim_engine_max];
    uint64_t seed;
};

struct sim_result {
    double hit_rate;        // cached tokens over prompt tokens
    double pooled_hit_rate; // of one cache as large as all of them that sees everything
    double ttft_ms, ttft_p99_ms;
    double end_ms;         // mean, to the last token
    double work_spread;    // the busiest engine's work over the mean
    double request_spread; // and requests
    uint32_t holders;      // engines that hold the first group at the end
    uint32_t engine_requests[sim_engine_max];
};

struct sim {
    struct traffic traffic;
    struct sim_engine engines[sim_engine_max];
    const struct sim_plan *plan;
    const struct policy *policy;
    struct rng rng;
    struct rng policy_rng;
    double prompt_sum, hit_sum, pooled_sum, end_sum;
    struct sim_cache pooled;
    double ttfts[sim_request_max];
    struct sim_flight flights[sim_flight_max];
    uint64_t session_ids[sim_session_max];
    uint64_t state[64];
    uint32_t session_turns[sim_session_max];
    uint32_t flight_count;
    uint32_t ttft_count;
    uint32_t end_count;
};

static inline uint32_t sim_cache_find(const struct sim_cache *cache, uint64_t id)
{
    uint32_t i = 0;
    while (i < cache->count && cache->ids[i] != id) {
        i++;
    }
    return i;
}

static inline bool sim_cache_has(const struct sim_cache *cache, uint64_t id)
{
    return sim_cache_find(cache, id) < cache->count;
}

static inline void sim_cache_drop_oldest(struct sim_cache *cache)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < cache->count; i++) {
        oldest = cache->used[i] < cache->used[oldest] ? i : oldest;
    }
    cache->size -= cache->sizes[oldest];
    cache->count--;
    cache->ids[oldest] = cache->ids[cache->count];
    cache->sizes[oldest] = cache->sizes[cache->count];
    cache->used[oldest] = cache->used[cache->count];
}

static inline void sim_cache_use(struct sim_cache *cache, uint64_t id, uint32_t size)
{
    uint32_t i = sim_cache_find(cache, id);
    if (i == cache->count) {
        while (cache->count > 0 &&
               (cache->count == sim_entry_max || cache->size + size > cache->capacity)) {
            sim_cache_drop_oldest(cache);
        }
        i = cache->count++;
        cache->ids[i] = id;
        cache->sizes[i] = size;
        cache->size += size;
    }
    // A conversation grows.
    cache->size += size - cache->sizes[i];
    cache->sizes[i] = size;
    cache->used[i] = ++cache->turn;
}

static inline uint32_t sim_cache_match(const struct sim_cache *cache,
                                       const struct sim_prompt *prompt)
{
    bool has_group = prompt->group != 0 && sim_cache_has(cache, prompt->group);
    bool has_session = prompt->history > 0 && sim_cache_has(cache, prompt->session);
    return (has_group ? prompt->shared : 0) +
           (has_session && (has_group || prompt->group == 0) ? prompt->history : 0);
}

static inline void sim_cache_take(struct sim_cache *cache, const struct sim_prompt *prompt,
                                  uint32_t output)
{
    uint32_t own = prompt->history + prompt->own + output;
    sim_cache_use(cache, prompt->session, own + (prompt->group == 0 ? prompt->shared : 0));
    if (prompt->group != 0) {
        sim_cache_use(cache, prompt->group, prompt->shared);
    }
}

static inline double sim_uniform(struct rng *rng)
{
    return ((double)(rng_next(rng) >> 11) + 0.5) / 9007199254740992.0;
}

// Tokens come and requests end, up to now.
static inline void sim_advance(struct sim *sim, double now_ms)
{
    for (uint32_t i = 0; i < sim->flight_count;) {
        struct sim_flight *flight = &sim->flights[i];
        struct load *load = &sim->engines[flight->engine].load;
        if (flight->request.first_us == 0 && flight->first_ms <= now_ms) {
            load_output(load, &flight->request, 1, (uint64_t)(flight->first_ms * 1000));
        }
        if (flight->end_ms > now_ms) {
            i++;
            continue;
        }
        load_output(load, &flight->request, flight->output - 1, (uint64_t)(flight->end_ms * 1000));
        load_end(load, &flight->request);
        if (flight->is_counted) {
            sim->end_sum += flight->end_ms - flight->sent_ms;
            sim->end_count++;
        }
        traffic_complete(&sim->traffic, (float)(flight->end_ms - flight->first_ms), flight->output);
        sim->flights[i] = sim->flights[--sim->flight_count];
    }
}

static inline void sim_look(struct sim *sim, const struct sim_prompt *prompt, double now_ms,
                            struct policy_target *targets)
{
    for (uint32_t e = 0; e < sim->plan->engines; e++) {
        struct sim_engine *engine = &sim->engines[e];
        struct load_view view;
        if (sim->plan->tells_memory) {
            int64_t context = engine->load.context_tokens;
            double usage = (double)context / (double)sim->plan->cache_tokens;
            struct load_report report = {.running = -1,
                                         .waiting = -1,
                                         .kv_usage = (float)usage,
                                         .cache_tokens = (double)sim->plan->cache_tokens,
                                         .block_tokens = 16};
            load_report(&engine->load, &report, (uint64_t)now_ms);
        }
        load_read(&engine->load, (uint64_t)now_ms, &view);
        targets[e] = fleet_target(e, sim->plan->weights[e] > 0 ? sim->plan->weights[e] : 1);
        targets[e].running_requests = view.requests;
        targets[e].matched_tokens = sim_cache_match(&engine->cache, prompt);
        targets[e].matched_blocks = targets[e].matched_tokens / 16;
        targets[e].decoding = view.sequences;
        targets[e].queued_tokens = view.queued_tokens;
        targets[e].context_tokens = view.context_tokens;
        targets[e].recent_requests = view.recent_requests;
        targets[e].recent_tokens = view.recent_tokens;
        targets[e].foreign_requests = view.foreign_requests;
        targets[e].waiting = view.waiting;
        targets[e].kv_usage = view.kv_usage;
        targets[e].prefill_ms = view.prefill_ms;
        targets[e].step_ms = view.step_ms;
        targets[e].cache_tokens = view.cache_tokens;
    }
}

static inline uint32_t sim_route(struct sim *sim, const struct policy_target *targets,
                                 uint32_t prompt_tokens, double now_ms)
{
    double costs[sim_engine_max];
    struct traffic_view view;
    traffic_read(&sim->traffic, (uint64_t)(now_ms * 1000), &view);
    struct policy_traffic traffic = {
        .arrivals_per_ms = view.arrivals_per_ms,
        .decode_ms = view.decode_ms,
        .output_tokens = view.output_tokens,
        .prefill_ms = view.prefill_ms,
    };
    struct policy_input in = {
        .targets = targets,
        .target_count = sim->plan->engines,
        .pool_size = sim->plan->engines,
        .now_ms = (uint64_t)now_ms,
        .key_count = prompt_tokens / 16,
        .prompt_tokens = prompt_tokens,
        .block_tokens = 16,
        .knobs = &(const struct policy_knobs){.load_bound_percent = 125},
        .traffic = &traffic,
        .costs = costs,
    };
    return policy_pick(sim->policy, sim->state, &in, &sim->policy_rng);
}

// The engine takes the request in; what it computes and when follows.  All who decode there wait for it.
static inline struct sim_flight *sim_serve(struct sim *sim, uint32_t e, uint32_t prompt,
                                           uint32_t cached, double now_ms)
{
    struct sim_engine *engine = &sim->engines[e];
    struct load_view view;
    load_read(&engine->load, (uint64_t)now_ms, &view);

    double token_ms = (double)PREFILL_SHIPPED_TOKEN_MS * engine->slowness;
    double step_ms = (double)PREFILL_SHIPPED_STEP_MS * engine->slowness;
    double decode_ms = (double)view.context_tokens * token_ms / 1000;
    double work_ms = (double)prefill_curve_ms((float)token_ms, (float)step_ms, (float)cached,
                                              (float)(prompt - cached));
    double start_ms = engine->free_ms > now_ms ? engine->free_ms : now_ms;
    engine->free_ms = start_ms + work_ms + decode_ms;
    for (uint32_t i = 0; i < sim->flight_count; i++) {
        struct sim_flight *other = &sim->flights[i];
        other->end_ms += other->engine == e && other->end_ms > start_ms ? work_ms : 0;
    }

    ASSERT(sim->flight_count < sim_flight_max);
    struct sim_flight *flight = &sim->flights[sim->flight_count++];
    *flight = (struct sim_flight){
        .request = {.prompt_tokens = prompt, .uncached_tokens = prompt - cached},
        .sent_ms = now_ms,
        .first_ms = engine->free_ms,
        .end_ms = engine->free_ms + sim->plan->output * (step_ms + decode_ms),
        .engine = e,
        .output = sim->plan->output,
    };
    load_begin(&engine->load, &flight->request, (uint64_t)(now_ms * 1000));
    traffic_routed(&sim->traffic, prefill_curve_ms(view.prefill_ms, view.step_ms, (float)cached,
                                                   (float)(prompt - cached)));
    engine->work_ms += work_ms;
    engine->requests++;
    return flight;
}

static inline struct sim_prompt sim_draw(struct sim *sim, uint32_t number)
{
    const struct sim_plan *plan = sim->plan;
    bool is_grouped = plan->groups > 0 && rng_below(&sim->rng, 100) < plan->group_percent;
    struct sim_prompt prompt = {
        .group = is_grouped ? 1 + rng_below(&sim->rng, plan->groups) : 0,
        .session = (1ULL << 32) + number,
        .shared = plan->shared,
        .own = plan->own,
    };
    if (plan->sessions > 0) {
        uint32_t s = rng_below(&sim->rng, plan->sessions);
        uint32_t turn = sim->session_turns[s]++ % plan->turns;
        sim->session_ids[s] = turn == 0 ? prompt.session : sim->session_ids[s];
        prompt.session = sim->session_ids[s];
        prompt.history = turn * (plan->own + plan->output);
    }
    return prompt;
}

static inline void sim_request(struct sim *sim, uint32_t number, double now_ms)
{
    const struct sim_plan *plan = sim->plan;
    struct sim_prompt prompt = sim_draw(sim, number);
    uint32_t prompt_tokens = prompt.shared + prompt.history + prompt.own;
    struct policy_target targets[sim_engine_max];

    if (number == plan->warm_up) {
        for (uint32_t i = 0; i < plan->engines; i++) {
            sim->engines[i].work_ms = 0;
            sim->engines[i].requests = 0;
        }
    }
    traffic_arrive(&sim->traffic, (uint64_t)(now_ms * 1000));
    sim_look(sim, &prompt, now_ms, targets);
    uint32_t e = sim_route(sim, targets, prompt_tokens, now_ms);
    uint32_t cached = targets[e].matched_tokens;
    struct sim_flight *flight = sim_serve(sim, e, prompt_tokens, cached, now_ms);

    if (number >= plan->warm_up) {
        flight->is_counted = true;
        sim->ttfts[sim->ttft_count++] = flight->first_ms - now_ms;
        sim->prompt_sum += prompt_tokens;
        sim->hit_sum += cached;
        sim->pooled_sum += sim_cache_match(&sim->pooled, &prompt);
    }
    sim_cache_take(&sim->engines[e].cache, &prompt, plan->output);
    sim_cache_take(&sim->pooled, &prompt, plan->output);
}

static inline int sim_compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static inline struct sim_result sim_tally(struct sim *sim)
{
    struct sim_result out = {0};
    double work_sum = 0, work_max = 0, requests_sum = 0, requests_max = 0, ttft_sum = 0;
    for (uint32_t e = 0; e < sim->plan->engines; e++) {
        const struct sim_engine *engine = &sim->engines[e];
        work_sum += engine->work_ms;
        work_max = fmax(work_max, engine->work_ms);
        requests_sum += engine->requests;
        requests_max = fmax(requests_max, engine->requests);
        out.engine_requests[e] = engine->requests;
        out.holders += sim_cache_has(&engine->cache, 1);
    }
    for (uint32_t i = 0; i < sim->ttft_count; i++) {
        ttft_sum += sim->ttfts[i];
    }
    qsort(sim->ttfts, sim->ttft_count, sizeof(double), sim_compare);
    out.hit_rate = sim->hit_sum / sim->prompt_sum;
    out.pooled_hit_rate = sim->pooled_sum / sim->prompt_sum;
    out.work_spread = work_max * sim->plan->engines / work_sum;
    out.request_spread = requests_max * sim->plan->engines / requests_sum;
    out.ttft_ms = ttft_sum / sim->ttft_count;
    out.end_ms = sim->end_sum / (sim->end_count > 0 ? sim->end_count : 1);
    out.ttft_p99_ms = sim->ttfts[sim->ttft_count * 99 / 100];
    return out;
}

static inline struct sim_result sim_run(const struct policy *policy, const struct sim_plan *plan)
{
    ASSERT(plan->engines <= sim_engine_max && plan->requests <= sim_request_max);
    struct sim *sim = aligned_alloc(64, (sizeof(*sim) + 63) / 64 * 64);
    ASSERT(sim != NULL && policy->state_size <= sizeof(sim->state));
    memset(sim, 0, sizeof(*sim));
    sim->plan = plan;
    sim->policy = policy;
    sim->rng.state = plan->seed;
    sim->policy_rng.state = plan->seed + 1;
    sim->pooled.capacity = plan->cache_tokens * plan->engines;
    traffic_init(&sim->traffic);
    for (uint32_t e = 0; e < plan->engines; e++) {
        sim->engines[e].slowness = plan->slowness[e] > 0 ? plan->slowness[e] : 1;
        sim->engines[e].cache.capacity = plan->cache_tokens;
        load_init(&sim->engines[e].load);
    }
    double now_ms = 1000;
    for (uint32_t i = 0; i < plan->requests; i++) {
        now_ms -= log(sim_uniform(&sim->rng)) * 1000 / plan->per_second;
        sim_advance(sim, now_ms);
        sim_request(sim, i, now_ms);
    }
    struct sim_result result = sim_tally(sim);
    free(sim);
    return result;
}
