// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/hash.h"
#include "base/prefill_curve.h"
#include "fleet/load.h"
#include "route/survey_internal.h"

#include <math.h>
#include <stdlib.h>

// Of an engine that has neither reported nor shown its capacity: as a large model on one GPU.
static const float unknown_cache_tokens = 50000;
// A block: nothing shorter can be told apart.
static const float age_min_tokens = 16;

enum {
    settle_s = 2, // blocks of a complete response count for this long without their event
};

bool survey_init(struct survey *survey, uint32_t target_count_max)
{
    *survey = (struct survey){
        .count_max = target_count_max,
        .session_slot = UINT32_MAX,
        .targets = calloc(target_count_max, sizeof(*survey->targets)),
        .backends = calloc(target_count_max, sizeof(struct backend *)),
        .costs = calloc(target_count_max, sizeof(*survey->costs)),
        .speeds = calloc(target_count_max, sizeof(*survey->speeds)),
        .hits = calloc((size_t)2 * target_count_max, sizeof(*survey->hits)),
        .reported_hits = calloc(target_count_max, sizeof(*survey->reported_hits)),
        .beliefs = calloc(target_count_max, sizeof(*survey->beliefs)),
    };
    return survey->targets != NULL && survey->backends != NULL && survey->costs != NULL &&
           survey->speeds != NULL && survey->hits != NULL && survey->reported_hits != NULL &&
           survey->beliefs != NULL;
}

void survey_fini(struct survey *survey)
{
    free(survey->targets);
    free(survey->backends);
    free(survey->costs);
    free(survey->speeds);
    free(survey->hits);
    free(survey->reported_hits);
    free(survey->beliefs);
    *survey = (struct survey){0};
}

static uint32_t survey_seconds(uint64_t now_us)
{
    return (uint32_t)(now_us / 1000000);
}

// The slot that served the session last; of several the most recent one.
static uint32_t survey_session(struct survey *survey, const struct survey_task *task)
{
    uint64_t key = knowledge_session_block(task->request->session_key);
    uint32_t youngest = UINT32_MAX;
    uint32_t slot = UINT32_MAX;

    uint32_t count =
        prefix_index_match(knowledge_index(task->knowledge), &key, 1, survey_seconds(task->now_us),
                           survey->hits, survey->count_max);
    for (uint32_t i = 0; i < count; i++) {
        if (survey->hits[i].age <= youngest) {
            youngest = survey->hits[i].age;
            slot = survey->hits[i].backend;
        }
    }
    return slot;
}

static void survey_note_reported(struct survey *survey, const struct route_request *request,
                                 const struct route_chain *chain, const struct prefix_hit *hit)
{
    struct survey_belief *belief = &survey->beliefs[hit->backend];
    uint32_t tokens = hit->blocks * chain->block_tokens;

    ASSERT(hit->backend < survey->count_max && chain->block_tokens > 0);
    ASSERT(hit->blocks <= chain->key_count);
    if (belief->blocks == 0 && belief->reported_block == 0) {
        ASSERT(survey->hit_count < 2 * survey->count_max);
        survey->hits[survey->hit_count++] = (struct prefix_hit){.backend = hit->backend};
    }
    belief->reported_block = chain->block_tokens;
    belief->reported_tokens = tokens;
    belief->is_cut = hit->blocks == chain->key_count &&
                     chain->key_count < request->prompt_tokens / chain->block_tokens;
    belief->host_tokens = hit->host * chain->block_tokens;
    belief->disk_tokens = hit->disk * chain->block_tokens;
    uint32_t blocks = tokens / request->block_tokens;
    belief->blocks = blocks > belief->blocks ? blocks : belief->blocks;
}

// Looks the prompt up in what engines report, with each size of blocks.
static void survey_match_reported(struct survey *survey, const struct survey_task *task)
{
    const struct route_request *request = task->request;
    const struct prefix_ledger *ledger = knowledge_ledger(task->knowledge);
    struct route_chain own = {.keys = request->keys,
                              .key_count = request->key_count,
                              .block_tokens = request->block_tokens};

    for (uint32_t i = 0; i <= request->other_count; i++) {
        const struct route_chain *chain = i == 0 ? &own : &request->others[i - 1];
        uint32_t count = prefix_ledger_match(ledger, chain->keys, chain->key_count,
                                             survey->reported_hits, survey->count_max);
        for (uint32_t k = 0; k < count; k++) {
            survey_note_reported(survey, request, chain, &survey->reported_hits[k]);
        }
    }
}

void survey_match(struct survey *survey, const struct survey_task *task)
{
    const struct route_request *request = task->request;

    for (uint32_t i = 0; i < survey->hit_count; i++) {
        survey->beliefs[survey->hits[i].backend] = (struct survey_belief){0};
    }
    survey->hit_count = 0;
    survey->session_slot = UINT32_MAX;
    if (!task->reads_prompt) {
        return;
    }
    if (request->session_key != 0) {
        survey->session_slot = survey_session(survey, task);
    }
    // Without a key here, the prompt may still have keys of smaller blocks.
    survey->hit_count =
        prefix_index_match(knowledge_index(task->knowledge), request->keys, request->key_count,
                           survey_seconds(task->now_us), survey->hits, survey->count_max);
    for (uint32_t i = 0; i < survey->hit_count; i++) {
        const struct prefix_hit *hit = &survey->hits[i];
        survey->beliefs[hit->backend] = (struct survey_belief){.blocks = hit->blocks,
                                                               .believed = hit->blocks,
                                                               .confirmed = hit->confirmed,
                                                               .age = hit->age};
    }
    if (request->by_token_ids && knowledge_ledger(task->knowledge) != NULL) {
        survey_match_reported(survey, task);
    }
}

// Tokens that the response will report as cached: an engine always computes the last token of a
// prompt, and with it its block.
static uint32_t expected_tokens(const struct route_request *request, uint32_t tokens,
                                uint32_t block)
{
    uint32_t most = request->prompt_tokens > 0 ? (request->prompt_tokens - 1) / block * block : 0;
    return tokens < most ? tokens / block * block : most;
}

// Whether the ledger was searched with blocks of the backend's size.  A request has chains for a
// few sizes only, and a size that has just become known has none yet.
static bool is_searched(const struct route_request *request, const struct backend *backend)
{
    uint32_t own = load_block_tokens(&backend->load);
    bool is_searched_for = own == 0 || own == request->block_tokens;

    for (uint32_t i = 0; !is_searched_for && i < request->other_count; i++) {
        is_searched_for = own == request->others[i].block_tokens;
    }
    return is_searched_for;
}

// Tokens of a block there, by which the response counts.
static uint32_t survey_block(const struct survey_belief *belief,
                             const struct route_request *request, const struct backend *backend)
{
    if (belief->reported_block > 0 || !request->by_token_ids) {
        return belief->reported_block > 0 ? belief->reported_block : 1;
    }
    uint32_t own = load_block_tokens(&backend->load);
    return own > 0 ? own : request->block_tokens;
}

// Tokens to subtract because some lie in slow tiers, not on the GPU.
static uint32_t survey_discount(const struct survey_belief *belief, const struct survey_task *task)
{
    return (uint32_t)((float)belief->host_tokens * (1 - task->host_worth)) +
           (uint32_t)((float)belief->disk_tokens * (1 - task->disk_worth));
}

// The first block that events do not report, in blocks of the backend's size.  False: it has no
// key.
static bool first_unreported(const struct route_request *request,
                             const struct survey_belief *belief, const struct backend *backend,
                             uint64_t *key)
{
    uint32_t block = survey_block(belief, request, backend);
    uint32_t at = belief->reported_tokens / block;
    struct route_chain chain = {.keys = request->keys,
                                .key_count = request->key_count,
                                .block_tokens = request->block_tokens};

    for (uint32_t i = 0; i < request->other_count && chain.block_tokens != block; i++) {
        chain = request->others[i];
    }
    if (chain.block_tokens != block || at >= chain.key_count) {
        return false;
    }
    *key = chain.keys[at];
    return true;
}

// Blocks behind the reported ones that are being computed, or whose event has not followed its
// response yet.  Blocks that events have reported once and report no longer are evicted.
static uint32_t survey_coming(const struct survey_task *task, const struct survey_belief *belief,
                              const struct backend *backend, uint32_t reported)
{
    const struct route_request *request = task->request;
    uint64_t key;

    if (belief->believed <= reported) {
        return 0;
    }
    bool is_evicted =
        first_unreported(request, belief, backend, &key) &&
        prefix_ledger_is_evicted(knowledge_ledger(task->knowledge), key, backend->slot);
    return prefix_index_pending(knowledge_index(task->knowledge),
                                &(struct prefix_pending){.keys = request->keys,
                                                         .key_count = request->key_count,
                                                         .from = reported,
                                                         .backend = backend->slot,
                                                         .now_s = survey_seconds(task->now_us),
                                                         .settle_s = is_evicted ? 0 : settle_s});
}

struct route_holding survey_holding(const struct survey *survey, const struct survey_task *task,
                                    const struct backend *backend)
{
    const struct route_request *request = task->request;
    const struct survey_belief *belief = &survey->beliefs[backend->slot];
    struct route_holding out = {.blocks = belief->believed,
                                .confirmed = belief->confirmed,
                                .reported_tokens = belief->reported_tokens,
                                .host_tokens = belief->host_tokens,
                                .disk_tokens = belief->disk_tokens};
    enum backend_events events =
        atomic_load_explicit(&backend->shared.events, memory_order_relaxed);
    ASSERT(request->block_tokens > 0);
    uint32_t reported = belief->reported_tokens / request->block_tokens;

    if (!request->by_token_ids || (reported == 0 && !is_searched(request, backend))) {
        events = BACKEND_EVENTS_NONE;
    } else if (events == BACKEND_EVENTS_LIVE && belief->is_cut) {
        events = BACKEND_EVENTS_LEARNING; // there may be more
    }
    out.by_events = events == BACKEND_EVENTS_LIVE;
    uint32_t coming = out.by_events ? survey_coming(task, belief, backend, reported) : 0;
    if ((out.by_events && coming == 0) ||
        (events != BACKEND_EVENTS_NONE && out.blocks < reported)) {
        out.blocks = reported;
        out.tokens = belief->reported_tokens;
    } else {
        out.blocks = out.by_events ? reported + coming : out.blocks;
        out.tokens = survey_tokens(request, out.blocks);
    }
    out.worth_tokens = out.tokens;
    if (events != BACKEND_EVENTS_NONE) {
        out.confirmed = out.by_events || out.confirmed < reported ? reported : out.confirmed;
        uint32_t discount = survey_discount(belief, task);
        // Host and disk tokens are counted in the engine's blocks, and may exceed `tokens` by a
        // part of one.
        out.worth_tokens -= discount < out.tokens ? discount : out.tokens;
    }
    ASSERT(out.worth_tokens <= out.tokens);
    out.expected_tokens =
        expected_tokens(request, out.tokens, survey_block(belief, request, backend));
    return out;
}

uint32_t survey_tokens(const struct route_request *request, uint32_t blocks)
{
    float tokens = (float)blocks * request->block_share;
    return tokens < (float)request->prompt_tokens ? (uint32_t)tokens : request->prompt_tokens;
}

// Blocks that the last of the `survey_sample` best holders has: members with more are few.  0:
// there are no more holders than that.
static uint32_t common_depth(const struct survey *survey)
{
    uint32_t best[survey_sample]; // descending
    uint32_t count = 0;

    if (survey->hit_count <= survey_sample) {
        return 0;
    }
    for (uint32_t i = 0; i < survey->hit_count; i++) {
        uint32_t blocks = survey->beliefs[survey->hits[i].backend].blocks;
        if (count == survey_sample && blocks <= best[survey_sample - 1]) {
            continue; // the usual case: many members hold the same system prompt and no more
        }
        uint32_t at = count < survey_sample ? count++ : survey_sample - 1;
        for (; at > 0 && best[at - 1] < blocks; at--) {
            best[at] = best[at - 1];
        }
        best[at] = blocks;
    }
    ASSERT(count == survey_sample);
    return best[survey_sample - 1];
}

// Tokens that its cache holds.  A learned capacity errs on the large side, and counts half.
static float survey_capacity(const struct survey_task *task, const struct backend *backend)
{
    uint32_t believed = knowledge_capacity(task->knowledge, backend);
    bool is_reported = atomic_load_explicit(&backend->load.cache_tokens, memory_order_relaxed) > 0;
    if (believed == 0) {
        return unknown_cache_tokens;
    }
    return is_reported ? (float)believed : (float)believed / 2;
}

// Forgets what the index says of a slot, and keeps what its events report.
static void survey_forget(struct survey *survey, const struct survey_task *task, uint32_t slot)
{
    struct survey_belief *belief = &survey->beliefs[slot];

    belief->believed = 0;
    belief->confirmed = 0;
    belief->age = 0;
    belief->blocks = belief->reported_tokens / task->request->block_tokens;
}

// A speed counts for less as its last sample gets older, and for nothing if there is none.  While a
// request waits there for its first token, which will be a sample, it counts in full: one request
// tries a backend that was slow, not all that arrive until its response.
static struct survey_speeds survey_trust_speeds(const struct load_view *load, float life_ms)
{
    bool is_being_tried = load->awaits_first_token;
    struct survey_speeds out = {.prefill_ms = load->prefill_ms, .step_ms = load->step_ms};

    if (load->speed_is_learned) {
        out.prefill_trust = is_being_tried ? 1 : load_trust(load->prefill_age_ms, life_ms);
        out.step_trust = is_being_tried ? 1 : load_trust(load->step_age_ms, life_ms);
    }
    return out;
}

// Writes what the index and the load say of a backend.
static void survey_describe(struct survey *survey, const struct survey_task *task,
                            struct policy_target *target, struct backend *backend)
{
    struct load_view load;

    load_read(&backend->load, task->now_us / 1000, &load);
    target->queued_tokens = load.queued_tokens;
    target->context_tokens = load.context_tokens;
    target->decoding = load.sequences;
    target->recent_requests = load.recent_requests;
    target->recent_tokens = load.recent_tokens;
    target->foreign_requests = load.foreign_requests;
    target->waiting = load.waiting;
    target->kv_usage = load.kv_usage;
    survey->speeds[survey->count] = survey_trust_speeds(&load, task->speed_life_ms);
    survey->speeds[survey->count].presence = load_presence(&backend->load, task->now_us / 1000);
    target->cache_tokens = load.cache_tokens;
    // A backend that has taken over a slot does not inherit what the last one was believed to hold.
    // Reported blocks are its own: those of the last one were removed before the slot was free.
    bool is_own = knowledge_owns(task->knowledge, task->sender, backend);
    if (is_own) {
        survey->capacity_sum += survey_capacity(task, backend);
        survey->capacity_count++;
    } else {
        survey_forget(survey, task, backend->slot);
    }
    struct route_holding holding = survey_holding(survey, task, backend);
    target->matched_blocks = holding.blocks;
    target->matched_tokens = holding.worth_tokens;
    target->has_session = is_own && backend->slot == survey->session_slot;
}

static void survey_add(struct survey *survey, const struct survey_task *task,
                       const struct fleet_member *member)
{
    struct backend *backend = member->backend;
    enum backend_tier tier = route_tier(task->request, backend, task->now_us / 1000);

    if (tier > survey->tier) {
        return;
    }
    survey->count = tier < survey->tier ? 0 : survey->count;
    survey->tier = tier;
    ASSERT(survey->count < survey->count_max);
    struct policy_target *target = &survey->targets[survey->count];
    *target = (struct policy_target){
        .backend = member->slot,
        .weight = member->weight,
        .running_requests =
            atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed) +
            atomic_load_explicit(&backend->load.others_requests, memory_order_relaxed),
        .identity = backend->identity,
        .waiting = -1,
        .kv_usage = -1,
    };
    if (task->reads_prompt) {
        survey_describe(survey, task, target, backend);
    }
    survey->backends[survey->count++] = backend;
}

static bool is_candidate(const struct fleet_member *member, const struct route_tried *tried)
{
    return !member->draining && !route_was_tried(tried, member->backend);
}

// The chance of a member to be surveyed, in 2^32: `none` if it holds less than `depth` blocks of
// the prompt, `some` if it holds just that.  A member with more is always surveyed.
struct odds {
    uint32_t depth;
    uint64_t none;
    uint64_t some;
};

static const uint64_t always = (uint64_t)1 << 32;

static struct odds odds_of_sample(const struct survey *survey, const struct survey_task *task)
{
    ASSERT(task->group->count > survey_sample);
    struct odds odds = {.depth = common_depth(survey),
                        .none = always * survey_sample / task->group->count,
                        .some = always};
    uint32_t tied = 0;

    for (uint32_t i = 0; odds.depth > 0 && i < survey->hit_count; i++) {
        tied += survey->beliefs[survey->hits[i].backend].blocks == odds.depth;
    }
    if (tied > survey_sample) {
        odds.some = always * survey_sample / tied;
    }
    return odds;
}

static bool is_surveyed(const struct survey *survey, const struct odds *odds, uint32_t slot,
                        struct rng *rng)
{
    uint32_t blocks = survey->beliefs[slot].blocks;
    if (blocks > odds->depth || slot == survey->session_slot) {
        return true;
    }
    uint64_t chance = blocks > 0 && blocks == odds->depth ? odds->some : odds->none;
    return chance >= always || rng_next(rng) >> 32 < chance;
}

static void survey_group(struct survey *survey, const struct survey_task *task,
                         const struct odds *odds, struct rng *rng)
{
    survey->count = 0;
    survey->capacity_sum = 0;
    survey->capacity_count = 0;
    survey->tier = BACKEND_DOWN;
    for (uint32_t i = 0; i < task->group->count; i++) {
        const struct fleet_member *member =
            &task->view->members[task->view->lists[task->group->first + i]];
        if (is_surveyed(survey, odds, member->slot, rng) && is_candidate(member, task->tried)) {
            survey_add(survey, task, member);
        }
    }
}

// The harmonic mean of a target's speed and the pool's.
static float survey_blend(float own_ms, float pool_ms, float trust)
{
    if (trust >= 1 || trust <= 0) {
        return trust > 0 ? own_ms : pool_ms; // the usual cases, without three divisions
    }
    return 1 / (trust / own_ms + (1 - trust) / pool_ms);
}

// Each target gets a blend of its own speed and the pool's, by the trust in its own.  The pool's is
// the harmonic mean, which a single slow target does not spoil, by the same trust; or the shipped
// constants.
static void survey_blend_speeds(struct survey *survey)
{
    struct survey_speeds pool = {0};
    float prefill_rate = 0;
    float step_rate = 0;

    for (uint32_t i = 0; i < survey->count; i++) {
        const struct survey_speeds *speeds = &survey->speeds[i];
        prefill_rate += speeds->prefill_trust / speeds->prefill_ms;
        step_rate += speeds->step_trust / speeds->step_ms;
        pool.prefill_trust += speeds->prefill_trust;
        pool.step_trust += speeds->step_trust;
    }
    pool.prefill_ms =
        prefill_rate > 0 ? pool.prefill_trust / prefill_rate : PREFILL_SHIPPED_TOKEN_MS;
    pool.step_ms = step_rate > 0 ? pool.step_trust / step_rate : PREFILL_SHIPPED_STEP_MS;
    for (uint32_t i = 0; i < survey->count; i++) {
        const struct survey_speeds *own = &survey->speeds[i];
        struct policy_target *target = &survey->targets[i];
        target->prefill_ms = survey_blend(own->prefill_ms, pool.prefill_ms, own->prefill_trust);
        target->step_ms = survey_blend(own->step_ms, pool.step_ms, own->step_trust);
    }
}

// A target that has just joined did little work recently, and would get more than its share until
// it had caught up: all of it on an empty cache.  So it is lent the work that it would have done in
// the time in which the longest present target was there and it was not.
static void survey_lend_work(struct survey *survey)
{
    float longest = 0;
    float shortest = 1;
    float presence = 0;
    float requests = 0;
    float tokens = 0;

    for (uint32_t i = 0; i < survey->count; i++) {
        const struct policy_target *target = &survey->targets[i];
        longest = fmaxf(longest, survey->speeds[i].presence);
        shortest = fminf(shortest, survey->speeds[i].presence);
        presence += survey->speeds[i].presence * (float)target->weight;
        requests += target->recent_requests;
        tokens += target->recent_tokens;
    }
    for (uint32_t i = 0; i < survey->count && longest > shortest; i++) {
        struct policy_target *target = &survey->targets[i];
        float missed = (longest - survey->speeds[i].presence) * (float)target->weight / presence;
        target->recent_requests += requests * missed;
        target->recent_tokens += tokens * missed;
    }
}

static void survey_group_or_sample(struct survey *survey, const struct survey_task *task,
                                   struct rng *rng)
{
    struct odds odds = {.none = always, .some = always};

    if (task->may_sample && task->group->count > survey_full_max) {
        struct odds sample = odds_of_sample(survey, task);
        survey_group(survey, task, &sample, rng);
        // A sample without ready members does not show that the rest has none.
        if (survey->count >= survey_sample / 4 && survey->tier == BACKEND_READY) {
            return;
        }
    }
    survey_group(survey, task, &odds, rng);
}

void survey_collect(struct survey *survey, const struct survey_task *task, struct rng *rng)
{
    survey_group_or_sample(survey, task, rng);
    if (task->reads_prompt) {
        survey_blend_speeds(survey);
        survey_lend_work(survey);
    }
}

void survey_drop(struct survey *survey, uint32_t target)
{
    ASSERT(target < survey->count);
    survey->count--;
    survey->targets[target] = survey->targets[survey->count];
    survey->backends[target] = survey->backends[survey->count];
}

float survey_reuse(const struct survey *survey, uint32_t pool_size)
{
    uint32_t best = 0;
    uint32_t age = UINT32_MAX;
    float holders = 0;

    for (uint32_t i = 0; i < survey->count; i++) {
        const struct policy_target *target = &survey->targets[i];
        best = target->matched_tokens > best ? target->matched_tokens : best;
    }
    if (best == 0 || survey->capacity_count == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < survey->count; i++) {
        const struct policy_target *target = &survey->targets[i];
        if (target->matched_tokens >= best - best / 8) {
            uint32_t used = survey->beliefs[target->backend].age;
            age = used < age ? used : age;
            holders++;
        }
    }
    // Each of the holders gets its share of the uses; all targets would get less.
    ASSERT(holders > 0);
    float between = fmaxf((float)age, age_min_tokens) * (float)pool_size / holders;
    return survey->capacity_sum / (float)survey->capacity_count / between;
}
